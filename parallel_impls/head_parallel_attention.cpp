// A tensor-parallel attention layer (Shoeybi et al. 2019, figure 3b): heads cut along "tp", the
// output projection by rows. One all-reduce each way. A key/value head that several ranks need is
// replicated on them; the gradients of its weights take one more all-reduce.
#include "parallel_impls/head_parallel.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

void forward(Rank& rank) {
  const Tensor y = heads_forward(rank, own_heads(rank));
  rank.along("tp").all_reduce(y);
  store_layer_outputs(rank, y);
}

void backward(Rank& rank) {
  const Heads heads = own_heads(rank);
  const std::vector<Index> shared = shared_kv_heads(rank.problem(), rank.size("tp"));
  const HeadsGradients shares = heads_backward(rank, heads, !shared.empty());
  rank.along("tp").all_reduce(shares.dx);
  sum_shared_heads(rank, shared, heads.kv, {shares.dwk, shares.dbk, shares.dwv, shares.dbv});
  store_layer_gradients(rank, shares);
}

Shard shard(const Case& value, const TensorSpec& tensor, int rank) {
  const Mesh& mesh = value.placement.mesh;
  const Heads heads = heads_of(value.problem, mesh.size("tp"), mesh.coordinate(rank, "tp"));
  Shard held = whole(tensor);
  const std::string_view name = tensor.name;
  const auto is = [&](std::string_view input) { return name == input || name.substr(1) == input; };
  if (is("wq")) held[1] = indices(heads.query);
  if (is("bq") || is("wo")) held[0] = indices(heads.query);
  if (is("wk") || is("wv")) held[1] = indices(heads.kv);
  if (is("bk") || is("bv")) held[0] = indices(heads.kv);
  return held;
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
      .unsupported =
          [](const Case& value) {
            const std::string reason = unsupported_layer(value.problem);
            return reason.empty() ? foreign_axis(value.placement.mesh, {"tp"}) : reason;
          },
      .shard = shard,
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
