// Sequence parallelism (Korthikanti et al. 2022, section 4.2.2): tokens are cut along "tp" for the
// norm, hidden units for the layers after it. An all-gather of z leads into the layers, a
// reduce-scatter of y out of them, and the other way round for the gradients. gamma and beta are
// whole on every rank, each of which sees its own tokens only: their gradients are summed.
#include "parallel_impls/dense.h"
#include "parallel_impls/norm_block.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

Range tokens_of(const Case& value, int rank_along_tp) {
  return even_part(value.problem.tokens, value.placement.mesh.size("tp"), rank_along_tp);
}

// The tokens of every rank, as windows on a tensor of all tokens.
std::vector<View> token_parts(Rank& rank, const View& all) {
  std::vector<View> parts;
  for (int other = 0; other < rank.size("tp"); ++other) {
    const Range tokens = tokens_of(rank.running(), other);
    parts.push_back(all.slice(0, tokens.first, tokens.count));
  }
  return parts;
}

// All tokens of what each rank has its own tokens of.
Tensor gathered(Rank& rank, const View& own) {
  Tensor all = rank.make(own.dtype, {rank.problem().tokens, own.shape[1]});
  Tensor room;
  rank.along("tp").all_gather(dense_of(rank, own, room), token_parts(rank, all));
  return all;
}

// The sum over the ranks of what each has for all tokens, of the own tokens only.
Tensor scattered(Rank& rank, const View& all) {
  const Range own = tokens_of(rank.running(), rank.coordinate("tp"));
  Tensor sum = rank.make(all.dtype, {own.count, all.shape[1]});
  rank.along("tp").reduce_scatter(token_parts(rank, all), sum);
  return sum;
}

void forward(Rank& rank) {
  Tensor z = gathered(rank, norm_forward(rank));
  const Tensor y = scattered(rank, layers_forward(rank, z));
  rank.device().copy(y, rank.get("y"));
  rank.keep("z", std::move(z));
}

void backward(Rank& rank) {
  const Tensor dy = gathered(rank, rank.get("dy"));
  const Tensor sum = scattered(rank, layers_backward(rank, rank.kept("z"), dy));
  const Tensor dz = rank.make(rank.problem().dtype, sum.view().shape);
  rank.device().copy(sum, dz);
  const Tensor sums = norm_backward(rank, dz);
  const Index count = is_layer_norm(rank.problem()) ? 2 : 1;
  rank.along("tp").all_reduce(sums.view().slice(0, 0, count));
  store_norm_gradients(rank, sums);
}

Shard shard(const Case& value, const TensorSpec& tensor, int rank) {
  const Mesh& mesh = value.placement.mesh;
  const int coordinate = mesh.coordinate(rank, "tp");
  const std::vector<Index> units =
      indices(even_part(value.problem.hidden, mesh.size("tp"), coordinate));
  Shard held = whole(tensor);
  if (tensor.token_dimension == 0) held[0] = indices(tokens_of(value, coordinate));
  if (tensor.name == "w1" || tensor.name == "dw1") held[1] = units;
  if (tensor.name == "w2" || tensor.name == "dw2") held[0] = units;
  return held;
}

Cost cost(const Case& value, int rank) {
  const Problem& problem = value.problem;
  const auto bytes = static_cast<Index>(storage_bytes(problem.dtype));
  const auto sum_bytes = static_cast<Index>(storage_bytes(accumulator_of(problem.dtype)));
  const Index tokens = tokens_of(value, value.placement.mesh.coordinate(rank, "tp")).count;
  const Index norm_weights = problem.features * (is_layer_norm(problem) ? 2 : 1);
  return traffic_only({
      {Phase::kForward, "all_gather", "tp", 1, tokens * problem.features * bytes},
      {Phase::kForward, "reduce_scatter", "tp", 1, problem.tokens * problem.outputs * sum_bytes},
      {Phase::kBackward, "all_gather", "tp", 1, tokens * problem.outputs * bytes},
      {Phase::kBackward, "reduce_scatter", "tp", 1, problem.tokens * problem.features * sum_bytes},
      {Phase::kBackward, "all_reduce", "tp", 1, norm_weights * sum_bytes},
  });
}

}  // namespace

const Subject& sequence_parallel_norm_mlp() {
  static const Subject subject{
      .name = "sequence_parallel_norm_mlp",
      .op = "norm_mlp",
      .summary = "tokens cut along tp for the norm, hidden units for the layers",
      .axes = {"tp"},
      .any_views = true,
      .contract =
          [](const Case& value) { return norm_contract(value, value.placement.mesh.size("tp")); },
      .cost = cost,
      .unsupported = [](const Case& value) { return foreign_axis(value.placement.mesh, {"tp"}); },
      .shard = shard,
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
