// The tensors of the operator `attention` as sharded subjects see them: who holds what, and how a
// rank's part of them is computed from blocks of keys.
#pragma once

#include "parallel_impls/attention_block.h"
#include "parallel_impls/shards.h"

namespace shardproof {

// The shard of a rank that holds these heads and tokens.
inline Shard attention_shard(const Problem& problem, const TensorSpec& tensor, const Heads& heads,
                             const std::vector<Index>& queries, const std::vector<Index>& keys) {
  const std::string_view name = tensor.name;
  const auto held = [](auto... lists) {
    Shard shard;
    shard.reserve(sizeof...(lists));
    (shard.push_back(std::move(lists)), ...);
    return shard;
  };
  const auto batch = indices({0, problem.batch});
  const auto last = indices({0, tensor.shape[tensor.shape.rank() - 1]});
  if (name == "k" || name == "v" || name == "dk" || name == "dv") {
    return held(batch, keys, indices(heads.kv), last);
  }
  if (name == "lse" || name == "dlse") return held(batch, indices(heads.query), queries);
  if (name == "sink" || name == "dsink") return held(indices(heads.query));
  if (name == "bias" || name == "dbias") return held(indices(heads.query), queries, last);
  return held(batch, queries, indices(heads.query), last);  // q, out and their gradients
}

// Queries of some heads with what else this rank holds of these heads.
inline QueryBlock with_head_inputs(Rank& rank, const View& q, const Heads& heads,
                                   std::vector<Chunk> chunks) {
  const Problem& problem = rank.problem();
  const bool biased = problem.bias == ScoreBias::kDense;
  Tensor copy;
  const View turned = turned_tokens(rank, Side::kQueries, positions_of(chunks), q, copy);
  return {turned, biased ? rank.get("bias") : View{},       std::move(chunks),
          heads,  problem.sink ? rank.get("sink") : View{}, std::move(copy)};
}

inline QueryBlock local_queries(Rank& rank, const Heads& heads, std::vector<Chunk> chunks) {
  return with_head_inputs(rank, rank.get("q"), heads, std::move(chunks));
}

inline Upstream local_upstream(Rank& rank) {
  return upstream_of(rank, rank.get("dout"), rank.get("out"), rank.get("dlse"), rank.get("lse"));
}

// Accumulators of the gradients that stay with the queries.
struct QueryGradients {
  Tensor dq;
  Tensor dbias;  // empty without a dense bias

  AttentionGradients with(const View& dk, const View& dv) const {
    return {dq, dk, dv, dbias ? dbias.view() : View{}};
  }
};

inline QueryGradients start_query_gradients(Rank& rank, const QueryBlock& queries) {
  QueryGradients gradients{make_zeros(rank, queries.q.shape), {}};
  if (queries.bias.data != nullptr) gradients.dbias = make_zeros(rank, queries.bias.shape);
  return gradients;
}

inline void store_query_gradients(Rank& rank, const QueryBlock& queries,
                                  const QueryGradients& gradients) {
  store_turned_back(rank, Side::kQueries, positions_of(queries.chunks), gradients.dq,
                    rank.get("dq"));
  if (gradients.dbias) rank.device().copy(gradients.dbias, rank.get("dbias"));
}

// Stores the gradients of the sinks, if there are any, summed over the ranks of `axis`, which have
// the same heads of other queries.
inline void store_sink_gradients(Rank& rank, const QueryBlock& queries, const Upstream& upstream,
                                 std::string_view axis) {
  if (queries.sink.data == nullptr) return;
  const Tensor sums = sink_gradients(rank, queries, upstream);
  if (rank.size(axis) > 1) rank.along(axis).all_reduce(sums);
  rank.device().copy(sums, rank.get("dsink"));
}

}  // namespace shardproof
