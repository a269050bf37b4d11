// The tensor-parallel attention layer with recomputed activations (Chen et al. 2016; Korthikanti et
// al. 2022): the forward pass keeps nothing, the backward pass projects and attends once more. The
// sum over the ranks is no input of any gradient, so nothing is communicated twice.
#include "parallel_impls/head_parallel.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

void forward(Rank& rank) {
  const HeadActivations made = attend_with_heads(rank, own_heads(rank));
  const Tensor y = project_out(rank, made.out);
  rank.along("tp").all_reduce(y);
  store_layer_outputs(rank, y);
}

void backward(Rank& rank) {
  keep_for_backward(rank, attend_with_heads(rank, own_heads(rank)));
  head_parallel_backward(rank);
}

// Every score is computed twice.
Cost cost(const Case& value, int rank) {
  Cost cost = head_parallel_cost(value, rank);
  *cost.score_elements *= 2;
  return cost;
}

}  // namespace

const Subject& recomputing_head_parallel_attention() {
  static const Subject subject{
      .name = "recomputing_head_parallel_attention",
      .op = "attention_layer",
      .summary = "heads along tp; the backward pass recomputes activations",
      .axes = {"tp"},
      .contract =
          [](const Case& value) { return layer_contract(value, value.placement.mesh.size("tp")); },
      .cost = cost,
      .unsupported = unsupported_head_parallel,
      .shard = head_parallel_shard,
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
