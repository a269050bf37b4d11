// What tensor-parallel attention layers have in common: heads cut along "tp", the output projection
// by rows. A key/value head that several ranks need is replicated on them; the gradients of its
// weights take one more all-reduce.
#pragma once

#include "parallel_impls/attention_layer.h"

namespace shardproof {

inline Heads own_heads(Rank& rank) {
  return heads_of(rank.problem(), rank.size("tp"), rank.coordinate("tp"));
}

// A rank's share of the gradients of the weights of its key/value heads.
struct KeyWeightGradients {
  View dwk;  // [features, kv heads, dim]
  View dbk;  // [kv heads, dim]
  View dwv;  // [features, kv heads, dim_v]
  View dbv;  // [kv heads, dim_v]
};

// The elements of wk, bk, wv and bv for one key/value head.
inline Index weights_per_kv_head(const Problem& problem) {
  return (problem.features + 1) * (problem.dim + problem.dim_v);
}

// Sums the gradients of shared key/value heads' weights over the ranks: one head after another,
// packed as dwk, dbk, dwv, dbv.
inline void sum_shared_heads(Rank& rank, const std::vector<Index>& shared, const Range& kv,
                             const KeyWeightGradients& shares) {
  if (shared.empty()) return;
  const Problem& problem = rank.problem();
  const Tensor packed =
      make_zeros(rank, {static_cast<Index>(shared.size()), weights_per_kv_head(problem)});
  const auto for_each_own = [&](auto&& visit) {
    for (std::size_t i = 0; i < shared.size(); ++i) {
      const Index local = shared[i] - kv.first;
      if (local < 0 || local >= kv.count) continue;
      const View head = packed.view().select(0, static_cast<Index>(i));
      Index first = 0;
      for (const auto& [own, n] : {std::pair{shares.dwk.select(1, local), problem.dim},
                                   std::pair{shares.dwv.select(1, local), problem.dim_v}}) {
        const Index count = own.elements();
        visit(own, head.slice(0, first, count).reshaped({problem.features, n}));
        first += count;
      }
      for (const View& own : {shares.dbk.select(0, local), shares.dbv.select(0, local)}) {
        visit(own, head.slice(0, first, own.elements()));
        first += own.elements();
      }
    }
  };
  for_each_own([&](const View& own, const View& sum) { rank.device().copy(own, sum); });
  rank.along("tp").all_reduce(packed);
  for_each_own([&](const View& own, const View& sum) { rank.device().copy(sum, own); });
}

// From kept activations; stores every gradient.
inline void head_parallel_backward(Rank& rank) {
  const Heads heads = own_heads(rank);
  const std::vector<Index> shared = shared_kv_heads(rank.problem(), rank.size("tp"));
  const HeadsGradients shares = heads_backward(rank, heads, !shared.empty());
  rank.along("tp").all_reduce(shares.dx);
  sum_shared_heads(rank, shared, heads.kv, {shares.dwk, shares.dbk, shares.dwv, shares.dbv});
  store_layer_gradients(rank, shares);
}

inline Shard head_parallel_shard(const Case& value, const TensorSpec& tensor, int rank) {
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

inline Cost head_parallel_cost(const Case& value, int rank) {
  const Problem& problem = value.problem;
  const Mesh& mesh = value.placement.mesh;
  const Heads heads = heads_of(problem, mesh.size("tp"), mesh.coordinate(rank, "tp"));
  const auto shared = static_cast<Index>(shared_kv_heads(problem, mesh.size("tp")).size());
  const auto bytes = static_cast<Index>(storage_bytes(accumulator_of(problem.dtype)));
  const Index rows = problem.batch * problem.q * problem.features;
  const Index backward_elements = rows + shared * weights_per_kv_head(problem);
  return {.traffic = {{
              {Phase::kForward, "all_reduce", "tp", 1, rows * bytes},
              {Phase::kBackward, "all_reduce", "tp", shared > 0 ? 2 : 1, backward_elements * bytes},
          }},
          .kv_resident_bytes = 0,
          .score_elements = visible_products(problem, every_token(problem.q),
                                             every_token(problem.kv), heads.query.count)};
}

inline std::string unsupported_head_parallel(const Case& value) {
  const std::string reason = unsupported_layer(value.problem);
  return reason.empty() ? foreign_axis(value.placement.mesh, {"tp"}) : reason;
}

}  // namespace shardproof
