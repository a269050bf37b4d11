// Ulysses and ring together (USP, Fang & Zhao 2024): the layout cuts tokens into the ring's blocks
// along "cp"; each block is cut into contiguous parts along "tp", whose ranks exchange them for
// heads and run the ring for these.
#include "parallel_impls/subjects.h"
#include "parallel_impls/ulysses_cost.h"

namespace shardproof {
namespace {

UlyssesGroup group_of(const Case& value, int rank) {
  const Mesh& mesh = value.placement.mesh;
  const int ring_size = mesh.size("cp");
  const int ring_rank = mesh.coordinate(rank, "cp");
  return {"tp",
          mesh.size("tp"),
          mesh.coordinate(rank, "tp"),
          Layout::kContiguous,
          query_chunks(value, ring_size, ring_rank),
          key_chunks(value, ring_size, ring_rank)};
}

void forward(Rank& rank) {
  const auto attention = [&](const QueryBlock& queries, const KeyBlock& keys, const View& out,
                             const View& lse) {
    ring_forward(rank, queries, keys.k, keys.v, out, lse);
  };
  ulysses_forward(rank, group_of(rank.running(), rank.index()), attention);
}

void backward(Rank& rank) {
  const auto attention = [&](const QueryBlock& queries, const KeyBlock& keys,
                             const Upstream& upstream, const QueryGradients& gradients) {
    auto home = ring_backward(rank, queries, keys.k, keys.v, upstream, gradients);
    return KeyGradients{std::move(home.dk), std::move(home.dv)};
  };
  ulysses_backward(rank, group_of(rank.running(), rank.index()), attention);
}

Cost cost(const Case& value, int rank) {
  const Mesh& mesh = value.placement.mesh;
  const int ring_size = mesh.size("cp");
  const int ring_rank = mesh.coordinate(rank, "cp");
  const UlyssesGroup group = group_of(value, rank);
  const Heads heads = heads_of(value.problem, group.size, group.mine);
  std::vector<Traffic> traffic = ulysses_traffic(value.problem, group);
  const auto ring = ring_traffic(value, ring_size, ring_rank, heads.kv.count);
  traffic.insert(traffic.end(), ring.begin(), ring.end());
  add_sink_traffic(value, ring_size, heads.query.count, traffic);
  const Index ring_bytes = ring_resident_bytes(value, ring_size, ring_rank, heads.kv.count);
  return {.traffic = std::move(traffic),
          .kv_resident_bytes = ulysses_resident_bytes(value.problem, group, ring_bytes),
          .score_elements = ring_products(value, ring_size, ring_rank, heads.query.count)};
}

}  // namespace

const Subject& ulysses_ring_attention() {
  static const Subject subject{
      .name = "ulysses_ring_attention",
      .op = "attention",
      .summary = "all-to-all of heads and tokens along tp, a key/value ring along cp",
      .axes = {"tp", "cp"},
      .uses_layout = true,
      .any_views = true,
      .queries_travel = true,
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
      .shard = [](const Case& value, const TensorSpec& tensor,
                  int rank) { return ulysses_shard(value.problem, tensor, group_of(value, rank)); },
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
