// A tensor-parallel mlp (Shoeybi et al. 2019, figure 3a) whose first layer is one fused weight
// [w1 | wg], as checkpoints hold a gate and its partner: a rank takes its units' columns of either
// half and multiplies by both at once.
#include "parallel_impls/fused_weight.h"
#include "parallel_impls/hidden_units.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

Range own_units(const Case& value, int rank) {
  const Mesh& mesh = value.placement.mesh;
  return even_part(value.problem.hidden, mesh.size("tp"), mesh.coordinate(rank, "tp"));
}

// The columns of the fused weight that belong to these units.
std::vector<Range> columns_of(const Problem& problem, const Range& units) {
  if (!problem.gated) return {units};
  return {units, {problem.hidden + units.first, units.count}};
}

// This rank's part of the weights `first` and, gated, `second`, which have a row each feature, or
// of their biases.
Tensor own_columns(Rank& rank, std::string_view first, std::string_view second) {
  const auto as_part = [&](std::string_view name) {
    const View part = rank.get(name);
    return with_dimension(part.shape.rank() == 2 ? part : with_dimension(part, 0), 1);
  };
  std::vector<View> parts{as_part(first)};
  if (rank.problem().gated) parts.push_back(as_part(second));
  return taken(rank, fused(rank, parts),
               columns_of(rank.problem(), own_units(rank.running(), rank.index())));
}

// The two halves of what has a column each unit and half; no second one without a gate.
View first_half(Rank& rank, const View& both) {
  return both.slice(1, 0, own_units(rank.running(), rank.index()).count);
}
View second_half(Rank& rank, const View& both) {
  const Index units = own_units(rank.running(), rank.index()).count;
  return rank.problem().gated ? both.slice(1, units, units) : View{};
}

void forward(Rank& rank) {
  const Problem& problem = rank.problem();
  Tensor w = own_columns(rank, "w1", "wg");
  const Tensor b = own_columns(rank, "b1", "bg");
  Tensor both = rank.make(problem.dtype, {problem.tokens, w.view().shape[1]});
  linear(rank, rank.get("x"), w, b.view().select(0, 0), both);
  const View z = first_half(rank, both);
  const View up = second_half(rank, both);
  Tensor a = rank.make(problem.dtype, z.shape);
  rank.device().activate(problem.activation, z, up, a);
  const Tensor y = rank.make(accumulator_of(problem.dtype), {problem.tokens, problem.outputs});
  rank.device().gemm(a, rank.get("w2"), y, {.operand = precision_of(problem).operand});
  rank.along("tp").all_reduce(y);
  store_outputs(rank, y);
  rank.keep("w", std::move(w));
  rank.keep("both", std::move(both));
  rank.keep("a", std::move(a));
}

void backward(Rank& rank) {
  const Problem& problem = rank.problem();
  Device& device = rank.device();
  const View dy = rank.get("dy");
  const View& w = rank.kept("w");
  const View& both = rank.kept("both");
  const View& a = rank.kept("a");
  const Tensor da = rank.make(problem.dtype, a.shape);
  linear_input_gradient(rank, dy, rank.get("w2"), da, false);
  linear_weight_gradients(rank, a, dy, rank.get("dw2"), rank.get("db2"));

  const Tensor dboth = rank.make(problem.dtype, both.shape);
  device.activate_backward(problem.activation, first_half(rank, both), second_half(rank, both), da,
                           first_half(rank, dboth), second_half(rank, dboth));
  const Tensor dw = rank.make(problem.dtype, w.shape);
  const Tensor db = rank.make(problem.dtype, {1, w.shape[1]});
  linear_weight_gradients(rank, rank.get("x"), dboth, dw, db.view().select(0, 0));
  device.copy(first_half(rank, dw), rank.get("dw1"));
  device.copy(first_half(rank, db).select(0, 0), rank.get("db1"));
  if (problem.gated) {
    device.copy(second_half(rank, dw), rank.get("dwg"));
    device.copy(second_half(rank, db).select(0, 0), rank.get("dbg"));
  }

  const Tensor dx = rank.make(accumulator_of(problem.dtype), {problem.tokens, problem.features});
  linear_input_gradient(rank, dboth, w, dx, false);
  rank.along("tp").all_reduce(dx);
  device.copy(dx, rank.get("dx"));
}

// Fused weights are whole everywhere; their gradients are where their units are.
Shard shard(const Case& value, const TensorSpec& tensor, int rank) {
  const std::vector<Index> units = indices(own_units(value, rank));
  Shard held = whole(tensor);
  const std::string_view name = tensor.name;
  if (name == "dw1" || name == "dwg") held[1] = units;
  if (name == "db1" || name == "dbg") held[0] = units;
  if (name == "w2" || name == "dw2") held[0] = units;
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

const Subject& fused_column_row_mlp() {
  static const Subject subject{
      .name = "fused_column_row_mlp",
      .op = "mlp",
      .summary = "one fused weight [w1 | wg], cut half by half along tp",
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
