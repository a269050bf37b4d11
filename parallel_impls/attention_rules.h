// Which part of its tensors attention of a pair of chunks reads, and the rules for its scores.
#pragma once

#include "parallel_impls/chunks.h"

namespace shardproof {

// [tokens, n] of one batch entry, chunk and head of a [batch, tokens, heads, n] tensor.
inline View matrix_of(const View& tensor, Index batch, const Chunk& chunk, Index head) {
  return tensor.select(0, batch).slice(0, chunk.first, chunk.count).select(1, head);
}

// [tokens] of one batch entry, head and chunk of a [batch, heads, tokens] tensor.
inline View vector_of(const View& tensor, Index batch, const Chunk& chunk, Index head) {
  return tensor.select(0, batch).select(0, head).slice(0, chunk.first, chunk.count);
}

// [tokens, keys] of one head and pair of chunks of a [heads, tokens, every key] tensor.
inline View bias_of(const View& tensor, Index head, const Chunk& queries, const Chunk& keys) {
  if (tensor.data == nullptr) return {};
  View bias = tensor.select(0, head).slice(0, queries.first, queries.count);
  bias = bias.slice(1, keys.positions.first, (keys.count - 1) * keys.positions.step + 1);
  bias.shape[1] = keys.count;
  bias.strides[1] *= keys.positions.step;
  return bias;
}

inline ScoreRule score_rule(const Problem& problem, Index head, const Chunk& queries,
                            const Chunk& keys) {
  return {
      .scale = effective_scale(problem),
      .softcap = effective_softcap(problem),
      .alibi_slope = problem.bias == ScoreBias::kAlibi ? alibi_slope(problem, head) : 0,
      .queries = queries.positions,
      .keys = keys.positions,
  };
}

// `head` and `batch` are global, so that whoever computes a pair keeps or drops it.
inline Dropout dropout_rule(const Problem& problem, Index batch, Index head, const Chunk& queries,
                            const Chunk& keys) {
  return {problem.seed, problem.dropout,   dropout_factor(problem), batch,
          head,         queries.positions, keys.positions};
}

}  // namespace shardproof
