// Which query heads a rank computes and which key/value heads they need: query heads are cut into
// nearly equal parts, and a key/value head is replicated on every rank that needs it.
#pragma once

#include "harness/model/layout.h"
#include "harness/model/problem.h"

namespace shardproof {

struct Heads {
  Range query;      // global
  Range kv;         // global
  Index group = 1;  // query heads that share a key/value head

  // The local key/value head of a local query head (Ainslie et al. 2023).
  Index kv_of(Index local_head) const { return (query.first + local_head) / group - kv.first; }
};

inline Heads heads_of(const Problem& problem, Index parts, Index part) {
  const Index group = problem.heads / problem.kv_heads;
  const Range query = even_part(problem.heads, parts, part);
  if (query.count == 0) return {query, {0, 0}, group};
  const Index first_kv = query.first / group;
  const Index last_kv = (query.first + query.count - 1) / group;
  return {query, {first_kv, last_kv - first_kv + 1}, group};
}

// The key/value heads that more than one of `parts` ranks needs, increasing.
inline std::vector<Index> shared_kv_heads(const Problem& problem, Index parts) {
  std::vector<Index> users(static_cast<std::size_t>(problem.kv_heads));
  for (Index part = 0; part < parts; ++part) {
    const Range kv = heads_of(problem, parts, part).kv;
    for (Index i = 0; i < kv.count; ++i) ++users[static_cast<std::size_t>(kv.first + i)];
  }
  std::vector<Index> shared;
  for (Index kv = 0; kv < problem.kv_heads; ++kv) {
    if (users[static_cast<std::size_t>(kv)] > 1) shared.push_back(kv);
  }
  return shared;
}

}  // namespace shardproof
