// Attention of one block of query tokens to one block of key tokens, on one rank: the step that all
// attention subjects repeat. FlashAttention (Dao et al. 2022; Dao 2023) with tiles of a whole
// chunk.
#pragma once

#include <algorithm>
#include <limits>

#include "parallel_impls/attention_rules.h"
#include "parallel_impls/heads.h"
#include "parallel_impls/rotary.h"

namespace shardproof {

struct QueryBlock {
  View q;     // [batch, tokens, heads, dim]
  View bias;  // [heads, tokens, every key]; data null: none
  std::vector<Chunk> chunks;
  Heads heads;
  View sink = {};      // [heads]; data null: none
  Tensor turned = {};  // what q views where positions are rotary: as scores need it
};

struct KeyBlock {
  View k;  // [batch, tokens, kv heads, dim]
  View v;  // [batch, tokens, kv heads, dim_v]
  std::vector<Chunk> chunks;
};

// What the online softmax carries from block to block.
struct RunningSoftmax {
  Tensor maximum;      // [batch, heads, tokens]
  Tensor normalizer;   // [batch, heads, tokens]
  Tensor accumulator;  // [batch, tokens, heads, dim_v]
};

// What the backward pass knows about a query block.
struct Upstream {
  View dout;     // [batch, tokens, heads, dim_v]
  View lse;      // [batch, heads, tokens]
  Tensor delta;  // [batch, heads, tokens]
};

// Sums in the accumulator's type.
struct AttentionGradients {
  View dq;     // [batch, tokens, heads, dim]
  View dk;     // [batch, tokens of the key block, kv heads, dim]
  View dv;     // [batch, tokens of the key block, kv heads, dim_v]
  View dbias;  // [heads, tokens, every key]; data null: none
};

inline Tensor make_zeros(Rank& rank, const Shape& shape) {
  Tensor zeros = rank.make(accumulator_of(rank.problem().dtype), shape);
  rank.device().fill(zeros, 0);
  return zeros;
}

// Room for the scores of the largest pair of chunks.
inline Tensor make_scores(Rank& rank, const QueryBlock& queries, const KeyBlock& keys) {
  const auto smaller = [](const Chunk& a, const Chunk& b) { return a.count < b.count; };
  const auto longest = [&](const std::vector<Chunk>& chunks) {
    return chunks.empty() ? 0 : std::max_element(chunks.begin(), chunks.end(), smaller)->count;
  };
  return rank.make(accumulator_of(rank.problem().dtype),
                   {longest(queries.chunks), longest(keys.chunks)});
}

inline View part_of(const Tensor& scores, const Chunk& queries, const Chunk& keys) {
  return scores.view().slice(0, 0, queries.count).slice(1, 0, keys.count);
}

// [tokens, kv heads, n] of one batch entry and chunk of keys or values. Tokens that no query of the
// pair sees may hold NaN, which not even a probability of 0 takes out of a product: they become 0.
inline View seen_tokens(Rank& rank, const View& tensor, Index batch, const Chunk& keys,
                        const Visibility& visible, Tensor& copy) {
  const View tokens = tensor.select(0, batch).slice(0, keys.first, keys.count);
  if (visible.every_key_seen) return tokens;
  copy = rank.make(tokens.dtype, tokens.shape);
  rank.device().copy_kept(tokens, visible.key_seen, copy);
  return copy;
}

// The sink of local head `head` as the scores of one key for `tokens` queries, [tokens, 1].
inline Tensor sink_scores(Rank& rank, const QueryBlock& queries, Index head, Index tokens) {
  Tensor scores = rank.make(accumulator_of(rank.problem().dtype), {tokens, 1});
  View sink = queries.sink.slice(0, head, 1);
  sink.shape = {tokens, 1};
  sink.strides = {};  // every query sees the same number
  rank.device().copy(sink, scores);
  return scores;
}

inline Visibility all_see_one_key(Index queries) {
  const auto count = static_cast<std::size_t>(queries);
  return {queries, 1, std::vector<std::uint8_t>(count, 1), {1}, true, true};
}

// Takes the sinks into the running softmax: one more key for every query, without a value.
inline void add_sink(Rank& rank, const QueryBlock& queries, const RunningSoftmax& state) {
  const Shape& shape = state.accumulator.view().shape;
  const Chunk all{0, shape[1], {}};
  const Visibility visible = all_see_one_key(shape[1]);
  for (Index batch = 0; batch < shape[0]; ++batch) {
    for (Index h = 0; h < shape[2]; ++h) {
      const Tensor scores = sink_scores(rank, queries, h, shape[1]);
      rank.device().online_softmax(
          scores, visible, {}, {}, scores.view().dtype, vector_of(state.maximum, batch, all, h),
          vector_of(state.normalizer, batch, all, h), matrix_of(state.accumulator, batch, all, h));
    }
  }
}

inline RunningSoftmax start_softmax(Rank& rank, const QueryBlock& queries, Index dim_v) {
  const Shape& q = queries.q.shape;
  RunningSoftmax state{make_zeros(rank, {q[0], q[2], q[1]}), make_zeros(rank, {q[0], q[2], q[1]}),
                       make_zeros(rank, {q[0], q[1], q[2], dim_v})};
  rank.device().fill(state.maximum, -std::numeric_limits<double>::infinity());
  if (queries.sink.data != nullptr) add_sink(rank, queries, state);
  return state;
}

// Takes one more block of keys into the running softmax.
inline void attend(Rank& rank, const QueryBlock& queries, const KeyBlock& keys,
                   const RunningSoftmax& state) {
  Device& device = rank.device();
  const Problem& problem = rank.problem();
  const Precision precision = precision_of(problem);
  const Heads& heads = queries.heads;
  const Tensor room = make_scores(rank, queries, keys);
  Tensor turned_copy;
  const View turned = turned_keys(rank, keys.chunks, keys.k, turned_copy);
  const auto attend_pair = [&](Index batch, const Chunk& from, const Chunk& to,
                               const Visibility& visible) {
    Tensor k_copy, v_copy;
    const View k = seen_tokens(rank, turned, batch, to, visible, k_copy);
    const View v = seen_tokens(rank, keys.v, batch, to, visible, v_copy);
    const View scores = part_of(room, from, to);
    for (Index h = 0; h < heads.query.count; ++h) {
      const View out = matrix_of(state.accumulator, batch, from, h);
      device.gemm(matrix_of(queries.q, batch, from, h), k.select(1, heads.kv_of(h)), scores,
                  {.transpose_b = true, .operand = precision.operand});
      device.online_softmax(scores, visible, bias_of(queries.bias, h, from, to),
                            score_rule(problem, heads.query.first + h, from, to),
                            precision.probability, vector_of(state.maximum, batch, from, h),
                            vector_of(state.normalizer, batch, from, h), out);
      if (problem.dropout > 0) {
        device.drop(dropout_rule(problem, batch, heads.query.first + h, from, to), scores);
      }
      device.gemm(scores, v.select(1, heads.kv_of(h)), out,
                  {.accumulate = true, .operand = precision.operand});
    }
    device.meter().score_elements += static_cast<double>(heads.query.count * scores.elements());
  };
  for_each_visible_pair(problem, queries.chunks, keys.chunks, attend_pair);
}

// out [batch, tokens, heads, dim_v] and lse [batch, heads, tokens] from the last state.
inline void finish_attention(Rank& rank, const RunningSoftmax& state, const View& out,
                             const View& lse) {
  const Chunk all{0, out.shape[1], {}};
  for (Index batch = 0; batch < out.shape[0]; ++batch) {
    for (Index h = 0; h < out.shape[2]; ++h) {
      rank.device().finish_softmax(matrix_of(state.accumulator, batch, all, h),
                                   vector_of(state.maximum, batch, all, h),
                                   vector_of(state.normalizer, batch, all, h),
                                   matrix_of(out, batch, all, h), vector_of(lse, batch, all, h));
    }
  }
}

// delta = rowsum(dout * out) - dlse, where dlse.data may be null.
inline Upstream upstream_of(Rank& rank, const View& dout, const View& out, const View& dlse,
                            const View& lse) {
  Upstream upstream{dout, lse, rank.make(accumulator_of(rank.problem().dtype), lse.shape)};
  const Chunk all{0, out.shape[1], {}};
  for (Index batch = 0; batch < out.shape[0]; ++batch) {
    for (Index h = 0; h < out.shape[2]; ++h) {
      const View dlse_row = dlse.data == nullptr ? View{} : vector_of(dlse, batch, all, h);
      rank.device().row_delta(matrix_of(dout, batch, all, h), matrix_of(out, batch, all, h),
                              dlse_row, vector_of(upstream.delta, batch, all, h));
    }
  }
  return upstream;
}

// The gradients of the sinks from these queries, [heads]: that of a key whose dP is 0.
inline Tensor sink_gradients(Rank& rank, const QueryBlock& queries, const Upstream& upstream) {
  Device& device = rank.device();
  const Shape& shape = upstream.lse.shape;
  const DType type = accumulator_of(rank.problem().dtype);
  const Chunk all{0, shape[2], {}};
  const Visibility visible = all_see_one_key(shape[2]);
  Tensor gradients = make_zeros(rank, {shape[1]});
  const Tensor sum = rank.make(type, {1});
  for (Index batch = 0; batch < shape[0]; ++batch) {
    for (Index h = 0; h < shape[1]; ++h) {
      const Tensor p = sink_scores(rank, queries, h, shape[2]);
      const Tensor slope = rank.make(type, {shape[2], 1});
      const Tensor ds = make_zeros(rank, {shape[2], 1});
      device.probabilities(p, visible, {}, {}, vector_of(upstream.lse, batch, all, h), slope);
      device.score_gradients(p, vector_of(upstream.delta, batch, all, h), type, ds, slope);
      device.column_sums(ds, sum);
      device.add(sum, gradients.view().slice(0, h, 1));
    }
  }
  return gradients;
}

// Adds what one block of keys contributes to the gradients.
inline void attend_backward(Rank& rank, const QueryBlock& queries, const KeyBlock& keys,
                            const Upstream& upstream, const AttentionGradients& gradients) {
  Device& device = rank.device();
  const Problem& problem = rank.problem();
  const Precision precision = precision_of(problem);
  const DType operand = precision.operand;
  const Heads& heads = queries.heads;
  const double scale = effective_scale(problem);
  Tensor turned_copy;
  const View turned = turned_keys(rank, keys.chunks, keys.k, turned_copy);
  const Tensor p_room = make_scores(rank, queries, keys);
  const Tensor gradient_room = make_scores(rank, queries, keys);
  const Tensor ds_room = make_scores(rank, queries, keys);
  const auto attend_pair = [&](Index batch, const Chunk& from, const Chunk& to,
                               const Visibility& visible) {
    Tensor k_copy, v_copy;
    const View k_seen = seen_tokens(rank, turned, batch, to, visible, k_copy);
    const View v_seen = seen_tokens(rank, keys.v, batch, to, visible, v_copy);
    const View p = part_of(p_room, from, to);
    const View gradient = part_of(gradient_room, from, to);
    const View ds = part_of(ds_room, from, to);
    for (Index h = 0; h < heads.query.count; ++h) {
      const View q = matrix_of(queries.q, batch, from, h);
      const View k = k_seen.select(1, heads.kv_of(h));
      const View v = v_seen.select(1, heads.kv_of(h));
      const View dout = matrix_of(upstream.dout, batch, from, h);
      // P from the scores and the final lse; ds holds the softcap's derivative until it is scaled.
      device.gemm(q, k, p, {.transpose_b = true, .operand = operand});
      device.probabilities(p, visible, bias_of(queries.bias, h, from, to),
                           score_rule(problem, heads.query.first + h, from, to),
                           vector_of(upstream.lse, batch, from, h), ds);
      // dS = P * (dP - delta)
      const Dropout dropout = dropout_rule(problem, batch, heads.query.first + h, from, to);
      device.gemm(dout, v, gradient, {.transpose_b = true, .operand = operand});
      if (problem.dropout > 0) device.drop(dropout, gradient);
      device.score_gradients(p, vector_of(upstream.delta, batch, from, h), precision.score_gradient,
                             gradient, ds);
      if (gradients.dbias.data != nullptr) {
        device.add(gradient, bias_of(gradients.dbias, h, from, to));
      }
      device.gemm(ds, k, matrix_of(gradients.dq, batch, from, h),
                  {.alpha = scale, .accumulate = true, .operand = operand});
      device.gemm(ds, q, matrix_of(gradients.dk, batch, to, heads.kv_of(h)),
                  {.transpose_a = true, .alpha = scale, .accumulate = true, .operand = operand});
      if (problem.dropout > 0) device.drop(dropout, p);
      device.round(p, precision.probability);
      device.gemm(p, dout, matrix_of(gradients.dv, batch, to, heads.kv_of(h)),
                  {.transpose_a = true, .accumulate = true, .operand = operand});
    }
  };
  for_each_visible_pair(problem, queries.chunks, keys.chunks, attend_pair);
}

}  // namespace shardproof
