// Ring attention (Liu et al. 2023) with a running softmax: exact attention over tokens cut along
// "cp". Contiguous blocks, zigzag pairs (Llama 3, 2024) or stripes (Brandon et al. 2023); chunk
// pairs that the mask empties are skipped.
#include "parallel_impls/ring_cost.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

void forward(Rank& rank) { ring_forward(rank, own_queries(rank)); }

void backward(Rank& rank) {
  const auto home = ring_backward(rank, own_queries(rank));
  store_key_gradients(rank, home.dk, home.dv);
}

Cost cost(const Case& value, int rank) {
  const int ranks = value.placement.mesh.size("cp");
  const int mine = value.placement.mesh.coordinate(rank, "cp");
  const Problem& problem = value.problem;
  std::vector<Traffic> traffic = ring_traffic(value, ranks, mine, problem.kv_heads);
  add_sink_traffic(value, ranks, problem.heads, traffic);
  return {.traffic = std::move(traffic),
          .kv_resident_bytes = ring_resident_bytes(value, ranks, mine, problem.kv_heads),
          .score_elements = ring_products(value, ranks, mine, problem.heads)};
}

}  // namespace

const Subject& ring_attention() {
  static const Subject subject{
      .name = "ring_attention",
      .op = "attention",
      .summary = "ring attention: key/value blocks travel along cp",
      .axes = {"cp"},
      .uses_layout = true,
      .any_views = true,
      .contract =
          [](const Case& value) {
            return ring_contract(value, value.placement.mesh.size("cp"), 1);
          },
      .cost = cost,
      .unsupported = [](const Case& value) { return foreign_axis(value.placement.mesh, {"cp"}); },
      .shard = ring_shard,
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
