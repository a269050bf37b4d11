// Key/value rings of ranks that each have some of the heads: what heads cut along "tp" take besides
// a ring along "cp".
#pragma once

#include "parallel_impls/ring_cost.h"

namespace shardproof {

// Sums the shared heads of `gradient` [batch, tokens, kv heads, n] over the ranks of "tp".
inline void sum_shared_heads(Rank& rank, const Range& kv, const View& gradient) {
  const std::vector<Index> shared = shared_kv_heads(rank.problem(), rank.size("tp"));
  if (shared.empty()) return;
  Shape shape = gradient.shape;
  shape[2] = static_cast<Index>(shared.size());
  const Tensor sums = make_zeros(rank, shape);
  const auto for_each_own = [&](auto&& visit) {
    for (std::size_t i = 0; i < shared.size(); ++i) {
      const Index local = shared[i] - kv.first;
      if (local < 0 || local >= kv.count) continue;
      visit(gradient.select(2, local), sums.view().select(2, static_cast<Index>(i)));
    }
  };
  for_each_own([&](const View& own, const View& sum) { rank.device().copy(own, sum); });
  rank.along("tp").all_reduce(sums);
  for_each_own([&](const View& own, const View& sum) { rank.device().copy(sum, own); });
}

inline Cost ring_heads_cost(const Case& value, int rank) {
  const Mesh& mesh = value.placement.mesh;
  const int ring_size = mesh.size("cp");
  const int ring_rank = mesh.coordinate(rank, "cp");
  const Heads heads = heads_of(value.problem, mesh.size("tp"), mesh.coordinate(rank, "tp"));
  std::vector<Traffic> traffic = ring_traffic(value, ring_size, ring_rank, heads.kv.count);
  add_sink_traffic(value, ring_size, heads.query.count, traffic);
  const auto shared = static_cast<Index>(shared_kv_heads(value.problem, mesh.size("tp")).size());
  if (shared > 0) {
    const Index elements = block_elements(value, ring_size, ring_rank, shared);
    const auto sum_bytes = static_cast<Index>(storage_bytes(accumulator_of(value.problem.dtype)));
    traffic.push_back({Phase::kBackward, "all_reduce", "tp", 2, elements * sum_bytes});
  }
  return {.traffic = std::move(traffic),
          .kv_resident_bytes = ring_resident_bytes(value, ring_size, ring_rank, heads.kv.count),
          .score_elements = ring_products(value, ring_size, ring_rank, heads.query.count)};
}

}  // namespace shardproof
