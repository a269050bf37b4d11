// A tensor-parallel attention layer (Shoeybi et al. 2019, figure 3b): one all-reduce each way.
#include "parallel_impls/head_parallel.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

void forward(Rank& rank) {
  const Tensor y = heads_forward(rank, own_heads(rank));
  rank.along("tp").all_reduce(y);
  store_layer_outputs(rank, y);
}

}  // namespace

const Subject& head_parallel_attention() {
  static const Subject subject{
      .name = "head_parallel_attention",
      .op = "attention_layer",
      .summary = "heads along tp, output projection by rows",
      .axes = {"tp"},
      .contract =
          [](const Case& value) { return layer_contract(value, value.placement.mesh.size("tp")); },
      .cost = head_parallel_cost,
      .unsupported = unsupported_head_parallel,
      .shard = head_parallel_shard,
      .forward = forward,
      .backward = head_parallel_backward,
  };
  return subject;
}

}  // namespace shardproof
