// Heads cut along "tp", tokens along "cp": each rank runs the ring for its own heads. A key/value
// head that query heads of several tp ranks use is replicated on them, and its gradient is summed.
#include "parallel_impls/ring_cost.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

void forward(Rank& rank) { ring_forward(rank, own_queries(rank)); }

// Sums the shared heads of `gradient` [batch, tokens, kv heads, n] over the ranks of "tp".
void sum_shared_heads(Rank& rank, const Range& kv, const View& gradient) {
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

void backward(Rank& rank) {
  const QueryBlock queries = own_queries(rank);
  const auto home = ring_backward(rank, queries);
  sum_shared_heads(rank, queries.heads.kv, home.dk);
  sum_shared_heads(rank, queries.heads.kv, home.dv);
  store_key_gradients(rank, home.dk, home.dv);
}

Cost cost(const Case& value, int rank) {
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

}  // namespace

const Subject& ring_heads_attention() {
  static const Subject subject{
      .name = "ring_heads_attention",
      .op = "attention",
      .summary = "heads along tp, a key/value ring along cp",
      .axes = {"tp", "cp"},
      .uses_layout = true,
      .any_views = true,
      .contract =
          [](const Case& value) {
            const Mesh& mesh = value.placement.mesh;
            return ring_contract(value, mesh.size("cp"), mesh.size("tp"));
          },
      .cost = cost,
      .unsupported =
          [](const Case& value) {
            return foreign_axis(value.placement.mesh, {"tp", "cp"});
          },
      .shard = ring_shard,
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
