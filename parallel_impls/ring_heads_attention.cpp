// Heads cut along "tp", tokens along "cp": each rank runs the ring for its own heads. A key/value
// head that query heads of several tp ranks use is replicated on them, and its gradient is summed.
#include "parallel_impls/ring_heads.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

void forward(Rank& rank) { ring_forward(rank, own_queries(rank)); }

void backward(Rank& rank) {
  const QueryBlock queries = own_queries(rank);
  const auto home = ring_backward(rank, queries);
  sum_shared_heads(rank, queries.heads.kv, home.dk);
  sum_shared_heads(rank, queries.heads.kv, home.dv);
  store_key_gradients(rank, home.dk, home.dv);
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
      .cost = ring_heads_cost,
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
