// A training step whose tokens are cut along "dp" and whose hidden units are cut along "tp".
// Gradients are summed over dp once, after the last micro-batch (Li et al. 2020), in one buffer.
// The squares of weights lie on the ranks along tp, each once; b2 is the same on all of them, so
// that its squares are added after the sum (as Megatron-LM counts parameters).
#include "parallel_impls/step.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

void forward(Rank& rank) {
  keep_hidden(rank);
  for (Index which = 0; which < rank.problem().micro_batches; ++which) {
    const Range tokens = micro_batch(rank, which);
    const Tensor y = step_forward(rank, tokens);
    rank.along("tp").all_reduce(y);
    store_outputs(rank, y, tokens);
  }
}

void backward(Rank& rank) {
  const Gradients gradients = zero_gradients(rank);
  for (Index which = 0; which < rank.problem().micro_batches; ++which) {
    const Range tokens = micro_batch(rank, which);
    const Tensor dx = step_backward(rank, tokens, gradients);
    rank.along("tp").all_reduce(dx);
    rank.device().copy(dx, tokens_of(rank.get("dx"), tokens));
  }
  rank.along("dp").all_reduce(gradients.all);
  const Tensor norm = sum_of_squares(rank, gradients.weights);
  rank.along("tp").all_reduce(norm);
  rank.device().add(sum_of_squares(rank, gradients.bias), norm);
  rank.device().square_root(norm);
  rank.device().copy(norm, rank.get("norm"));
  clip(rank, gradients.all, norm);
  store_gradients(rank, gradients);
}

std::vector<Index> owned_tokens(const Case& value, Index rank_along_dp) {
  return owned_positions(value.placement.layout, value.problem.tokens,
                         value.placement.mesh.size("dp"), rank_along_dp);
}

Range owned_units(const Case& value, int rank) {
  const Mesh& mesh = value.placement.mesh;
  return even_part(value.problem.hidden, mesh.size("tp"), mesh.coordinate(rank, "tp"));
}

Shard shard(const Case& value, const TensorSpec& tensor, int rank) {
  Shard held = whole(tensor);
  const std::string_view name = tensor.name;
  if (tensor.token_dimension == 0) {
    held[0] = owned_tokens(value, value.placement.mesh.coordinate(rank, "dp"));
  }
  if (name == "w1" || name == "dw1") held[1] = indices(owned_units(value, rank));
  if (name == "w2" || name == "dw2") held[0] = indices(owned_units(value, rank));
  return held;
}

Contract contract(const Case& value) {
  const Mesh& mesh = value.placement.mesh;
  Partition tokens;
  for (int rank = 0; rank < mesh.size("dp"); ++rank) tokens.push_back(owned_tokens(value, rank));
  return step_contract(value, tokens, even_partition(value.problem.hidden, mesh.size("tp")));
}

Cost cost(const Case& value, int rank) {
  const Problem& problem = value.problem;
  const auto bytes = static_cast<Index>(storage_bytes(accumulator_of(problem.dtype)));
  const auto tokens =
      static_cast<Index>(owned_tokens(value, value.placement.mesh.coordinate(rank, "dp")).size());
  const Index width = problem.features + (problem.tied ? 0 : problem.outputs);
  const Index parameters = owned_units(value, rank).count * width + problem.outputs;
  return traffic_only({
      {Phase::kForward, "all_reduce", "tp", problem.micro_batches,
       tokens * problem.outputs * bytes},
      {Phase::kBackward, "all_reduce", "dp", 1, parameters * bytes},
      {Phase::kBackward, "all_reduce", "tp", problem.micro_batches + 1,
       (tokens * problem.features + 1) * bytes},
  });
}

}  // namespace

const Subject& data_parallel_step() {
  static const Subject subject{
      .name = "data_parallel_step",
      .op = "training_step",
      .summary = "tokens cut along dp, hidden units along tp",
      .axes = {"tp", "dp"},
      .uses_layout = true,
      .any_views = true,
      .contract = contract,
      .cost = cost,
      .unsupported =
          [](const Case& value) {
            return foreign_axis(value.placement.mesh, {"tp", "dp"});
          },
      .shard = shard,
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
