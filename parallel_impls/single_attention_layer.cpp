// An attention layer on one rank, in the precision of the sharded subject: the error that sharding
// starts from.
#include "parallel_impls/attention_layer.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

void forward(Rank& rank) {
  store_layer_outputs(rank, heads_forward(rank, heads_of(rank.problem(), 1, 0)));
}

void backward(Rank& rank) {
  store_layer_gradients(rank, heads_backward(rank, heads_of(rank.problem(), 1, 0), false));
}

Cost cost(const Case& value, int) {
  const Problem& problem = value.problem;
  return {.traffic = std::vector<Traffic>{},
          .kv_resident_bytes = 0,
          .score_elements = visible_products(problem, every_token(problem.q),
                                             every_token(problem.kv), problem.heads)};
}

}  // namespace

const Subject& single_attention_layer() {
  static const Subject subject{
      .name = "single_attention_layer",
      .op = "attention_layer",
      .summary = "an attention layer on one rank",
      .axes = {},
      .contract = [](const Case& value) { return layer_contract(value, 1); },
      .cost = cost,
      .unsupported =
          [](const Case& value) {
            const std::string reason = unsupported_layer(value.problem);
            return reason.empty() ? foreign_axis(value.placement.mesh, {}) : reason;
          },
      .shard = [](const Case&, const TensorSpec& tensor, int) { return whole(tensor); },
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
