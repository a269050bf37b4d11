// A tensor-parallel mlp (Shoeybi et al. 2019, figure 3a): w1 and wg cut by columns, w2 by rows
// along "tp", so that an activation never needs another rank's hidden unit. One all-reduce each
// way.
#include "parallel_impls/hidden_units.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

void forward(Rank& rank) {
  const Tensor y = hidden_units_forward(rank);
  rank.along("tp").all_reduce(y);
  store_outputs(rank, y);
}

void backward(Rank& rank) {
  const Tensor dx = hidden_units_backward(rank);
  rank.along("tp").all_reduce(dx);
  rank.device().copy(dx, rank.get("dx"));
}

Shard shard(const Case& value, const TensorSpec& tensor, int rank) {
  const Mesh& mesh = value.placement.mesh;
  const std::vector<Index> mine =
      indices(even_part(value.problem.hidden, mesh.size("tp"), mesh.coordinate(rank, "tp")));
  Shard held = whole(tensor);
  const std::string_view name = tensor.name;
  const auto is = [&](std::string_view input) { return name == input || name.substr(1) == input; };
  if (is("w1") || is("wg")) held[1] = mine;
  if (is("b1") || is("bg")) held[0] = mine;
  if (is("w2")) held[0] = mine;
  return held;
}

Cost cost(const Case& value, int) {
  const Problem& problem = value.problem;
  const auto bytes = static_cast<Index>(storage_bytes(accumulator_of(problem.dtype)));
  return traffic_only({
      {Phase::kForward, "all_reduce", "tp", 1, problem.tokens * problem.outputs * bytes},
      {Phase::kBackward, "all_reduce", "tp", 1, problem.tokens * problem.features * bytes},
  });
}

}  // namespace

const Subject& column_row_mlp() {
  static const Subject subject{
      .name = "column_row_mlp",
      .op = "mlp",
      .summary = "column-parallel, then row-parallel along tp",
      .axes = {"tp"},
      .any_views = true,
      .contract =
          [](const Case& value) {
            return hidden_units_contract(value, value.placement.mesh.size("tp"));
          },
      .cost = cost,
      .unsupported = [](const Case& value) { return foreign_axis(value.placement.mesh, {"tp"}); },
      .shard = shard,
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
