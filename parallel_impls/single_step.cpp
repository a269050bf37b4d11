// A training step on one rank, in the precision of the sharded subject.
#include "parallel_impls/step.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

void forward(Rank& rank) {
  keep_hidden(rank);
  for (Index which = 0; which < rank.problem().micro_batches; ++which) {
    const Range tokens = micro_batch(rank, which);
    store_outputs(rank, step_forward(rank, tokens), tokens);
  }
}

void backward(Rank& rank) {
  const Gradients gradients = zero_gradients(rank);
  for (Index which = 0; which < rank.problem().micro_batches; ++which) {
    const Range tokens = micro_batch(rank, which);
    const Tensor dx = step_backward(rank, tokens, gradients);
    rank.device().copy(dx, tokens_of(rank.get("dx"), tokens));
  }
  const Tensor norm = sum_of_squares(rank, gradients.all);
  rank.device().square_root(norm);
  rank.device().copy(norm, rank.get("norm"));
  clip(rank, gradients.all, norm);
  store_gradients(rank, gradients);
}

}  // namespace

const Subject& single_step() {
  static const Subject subject{
      .name = "single_step",
      .op = "training_step",
      .summary = "a training step on one rank",
      .axes = {},
      .any_views = true,
      .contract = [](const Case& value) { return step_contract(value, {}, {}); },
      .cost = [](const Case&, int) { return traffic_only({}); },
      .unsupported = [](const Case& value) { return foreign_axis(value.placement.mesh, {}); },
      .shard = [](const Case&, const TensorSpec& tensor, int) { return whole(tensor); },
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
