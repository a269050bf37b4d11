// The tensor-parallel mlp with recomputed activations (Chen et al. 2016): the forward pass keeps
// nothing, the backward pass computes the hidden units once more. The sum over the ranks is no
// input of any gradient, so nothing is communicated twice.
#include "parallel_impls/column_row.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

void forward(Rank& rank) {
  const HiddenActivations made = activate_hidden_units(rank, own_weights(rank));
  const Tensor y = project_hidden_units(rank, own_weights(rank), made.a);
  rank.along("tp").all_reduce(y);
  store_outputs(rank, y);
}

void backward(Rank& rank) {
  keep_for_backward(rank, activate_hidden_units(rank, own_weights(rank)));
  column_row_backward(rank);
}

}  // namespace

const Subject& recomputing_column_row_mlp() {
  static const Subject subject{
      .name = "recomputing_column_row_mlp",
      .op = "mlp",
      .summary = "column- and row-parallel; the backward pass recomputes activations",
      .axes = {"tp"},
      .any_views = true,
      .contract =
          [](const Case& value) {
            return hidden_units_contract(value, value.placement.mesh.size("tp"));
          },
      .cost = column_row_cost,
      .unsupported = [](const Case& value) { return foreign_axis(value.placement.mesh, {"tp"}); },
      .shard = column_row_shard,
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
