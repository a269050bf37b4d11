// A tensor-parallel mlp (Shoeybi et al. 2019, figure 3a): one all-reduce each way.
#include "parallel_impls/column_row.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

void forward(Rank& rank) {
  const Tensor y = hidden_units_forward(rank);
  rank.along("tp").all_reduce(y);
  store_outputs(rank, y);
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
      .cost = column_row_cost,
      .unsupported = [](const Case& value) { return foreign_axis(value.placement.mesh, {"tp"}); },
      .shard = column_row_shard,
      .forward = forward,
      .backward = column_row_backward,
  };
  return subject;
}

}  // namespace shardproof
