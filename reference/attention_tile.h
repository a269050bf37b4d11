// What the attention reference holds in hand: KeyGroup, one batch entry and key/value head with the
// query heads that share it, and QueryTile, a few query rows of one of these heads against all
// keys. Everything stands in the plan's order. Entries of a tile outside its segments are never
// read.
#pragma once

#include <algorithm>
#include <vector>

#include "reference/attention.h"
#include "reference/attention_plan.h"

namespace shardproof {

// The rows of a tile: few enough that its [rows, keys] matrices stay in the cache, and no more than
// there are.
inline Index tile_rows(const Problem& problem) {
  constexpr Index kEntries = Index{1} << 14;
  const Index most = std::clamp<Index>(kEntries / std::max<Index>(problem.kv, 1), 16, 64);
  return std::min(most, problem.q);
}

template <class T>
struct KeyGroup {
  Index batch = 0;
  Index kv_head = 0;
  Index heads = 0;      // query heads in the group
  std::vector<T> q;     // [heads, queries, dim]
  std::vector<T> dout;  // [heads, queries, dim_v]
  std::vector<T> dlse;  // [heads, queries]
  std::vector<T> sink;  // [heads]; empty: none
  std::vector<T> k;     // [keys, dim]; rows that no query sees are zero
  std::vector<T> v;     // [keys, dim_v]; likewise
  std::vector<T> k_transposed;
  std::vector<T> v_transposed;
  std::vector<T> dk;  // like k, summed tile by tile
  std::vector<T> dv;  // like v
};

template <class T>
struct QueryTile {
  Index head = 0;  // within the group
  Index query_block = 0;
  Index first = 0;  // first query of the plan
  Index rows = 0;
  Index first_row = 0;  // head * queries + first: the row in the group's q
  std::vector<Segment> segments;
  const unsigned char* visible = nullptr;  // [rows, keys]

  // [rows, keys]
  std::vector<T> scaled;       // x = scale * q.k
  std::vector<T> tanh;         // tanh(x / cap); untouched without softcap
  std::vector<T> bias;         // untouched without bias
  std::vector<T> logit;        // z
  std::vector<T> probability;  // P; 0 where hidden
  std::vector<T> factor;       // of dropout: 0 or 1 / (1 - dropout); empty without it
  std::vector<T> dropped;      // P * factor; empty without dropout
  std::vector<T> dp;           // dout . v, times factor
  std::vector<T> inner;        // dP - delta + dlse
  std::vector<T> dlogit;       // P * inner
  std::vector<T> dscore;       // dlogit * (1 - tanh^2)
  // [rows]
  std::vector<Index> visible_count;
  std::vector<T> maximum;
  std::vector<T> normaliser;
  std::vector<T> sink_probability;  // 0 without a sink
  std::vector<T> lse;
  std::vector<T> delta;  // dout . out
  std::vector<T> dsink;  // what the row adds to the gradient of its head's sink
  // [rows, dim_v] and [rows, dim]
  std::vector<T> out;
  std::vector<T> dq;

  explicit QueryTile(const Problem& problem);

  // What the values are multiplied by.
  const std::vector<T>& weights() const { return factor.empty() ? probability : dropped; }
};

// Fills `group`, whose batch and kv_head are set, with the copies that the tiles work on.
template <class T>
void gather_group(const Problem& problem, const AttentionPlan& plan, const BatchMask& mask,
                  const AttentionInputs<T>& inputs, KeyGroup<T>& group);

// Fills `tile`, whose position and mask are set, and adds to group.dk, group.dv.
template <class T>
void compute_tile(const Problem& problem, const AttentionPlan& plan,
                  const AttentionInputs<T>& inputs, KeyGroup<T>& group, QueryTile<T>& tile);

}  // namespace shardproof
