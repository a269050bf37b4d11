// Rotary positions (Su et al. 2021) inside attention: queries and keys are turned by the positions
// of their tokens before they meet, and the complete sums of their gradients are turned back.
#pragma once

#include "harness/run/rank.h"
#include "parallel_impls/chunks.h"
#include "parallel_impls/precision.h"

namespace shardproof {

// Of tokens at these places in the whole sequence.
inline Rotation rotation_of(const Problem& problem, Side side, const std::vector<Index>& tokens,
                            bool back) {
  Rotation rotation{problem.rotary, {}, back};
  for (Index token : tokens) {
    rotation.positions.push_back(rotary_position(problem, side, token));
  }
  return rotation;
}

// q or k of these tokens, [batch, tokens, heads, dim], as scores are computed from them: `tensor`
// itself, or its turned copy.
inline View turned_tokens(Rank& rank, Side side, const std::vector<Index>& tokens,
                          const View& tensor, Tensor& copy) {
  if (rank.problem().rotary == 0) return tensor;
  copy = rank.make(turned_type(rank.problem()), tensor.shape);
  rank.device().rotate(rotation_of(rank.problem(), side, tokens, false), tensor, copy);
  return copy;
}

// A block of keys at its own positions, whoever holds it: what travels is not turned.
inline View turned_keys(Rank& rank, const std::vector<Chunk>& chunks, const View& k, Tensor& copy) {
  return turned_tokens(rank, Side::kKeys, positions_of(chunks), k, copy);
}

// Stores the complete gradient of what turned_tokens() returned as that of what it was given.
inline void store_turned_back(Rank& rank, Side side, const std::vector<Index>& tokens,
                              const View& gradient, const View& target) {
  if (rank.problem().rotary == 0) return rank.device().copy(gradient, target);
  rank.device().rotate(rotation_of(rank.problem(), side, tokens, true), gradient, target);
}

}  // namespace shardproof
