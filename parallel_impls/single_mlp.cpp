// An mlp on one rank, in the precision of the sharded subject: the error that sharding starts from.
#include "parallel_impls/hidden_units.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

void forward(Rank& rank) { store_outputs(rank, hidden_units_forward(rank)); }

void backward(Rank& rank) { rank.device().copy(hidden_units_backward(rank), rank.get("dx")); }

}  // namespace

const Subject& single_mlp() {
  static const Subject subject{
      .name = "single_mlp",
      .op = "mlp",
      .summary = "an mlp on one rank",
      .axes = {},
      .any_views = true,
      .contract = [](const Case& value) { return hidden_units_contract(value, 1); },
      .cost = [](const Case&, int) { return traffic_only({}); },
      .unsupported = [](const Case& value) { return foreign_axis(value.placement.mesh, {}); },
      .shard = [](const Case&, const TensorSpec& tensor, int) { return whole(tensor); },
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
