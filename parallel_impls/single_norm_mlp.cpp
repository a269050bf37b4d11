// A norm and two linear layers on one rank, in the precision of the sharded subject.
#include "parallel_impls/norm_block.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

void forward(Rank& rank) {
  Tensor z = norm_forward(rank);
  rank.device().copy(layers_forward(rank, z), rank.get("y"));
  rank.keep("z", std::move(z));
}

void backward(Rank& rank) {
  const View& z = rank.kept("z");
  const Tensor sum = layers_backward(rank, z, rank.get("dy"));
  const Tensor dz = rank.make(rank.problem().dtype, z.shape);
  rank.device().copy(sum, dz);
  store_norm_gradients(rank, norm_backward(rank, dz));
}

}  // namespace

const Subject& single_norm_mlp() {
  static const Subject subject{
      .name = "single_norm_mlp",
      .op = "norm_mlp",
      .summary = "a norm and two linear layers on one rank",
      .axes = {},
      .any_views = true,
      .contract = [](const Case& value) { return norm_contract(value, 1); },
      .cost = [](const Case&, int) { return traffic_only({}); },
      .unsupported = [](const Case& value) { return foreign_axis(value.placement.mesh, {}); },
      .shard = [](const Case&, const TensorSpec& tensor, int) { return whole(tensor); },
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
