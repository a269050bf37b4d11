// How an attention layer's heads are cut into parts, and which of them are beyond any bound.
#pragma once

#include "reference/attention.h"
#include "reference/projection.h"

namespace shardproof {

// Which parts compute which heads, and so contribute to the gradients of which key/value heads.
struct HeadParts {
  // A key/value head and a part that computes some of its query heads, by head, then part.
  struct Share {
    Index kv_head = 0;
    std::size_t part = 0;
    std::vector<Index> heads;
  };

  HeadParts(const Problem& problem, const Partition& heads_of_part);

  // The columns that each part holds: of out, [heads * width]; of the gradients of q, k and v side
  // by side, the latter two with one block of columns a share.
  Partition columns(Index width) const;
  Partition gradient_columns(Index dim, Index dim_v) const;

  // Sums `values` [tokens, heads * width] over the heads of each share; the bounds likewise.
  template <class Real>
  std::pair<std::vector<Real>, std::vector<Bound>> sum_heads(const std::vector<Real>& values,
                                                             const std::vector<Bound>& bounds,
                                                             Index width,
                                                             const Accumulator& type) const;

  // [rows, shares * width] with the shares of each key/value head all-reduced: [rows, kv_heads *
  // width]. `width` 0, or nothing divided: unchanged.
  template <class Real>
  Product<Real> reduced(const Product<Real>& product, Index width) const;

  Index heads = 1;
  Index kv_heads = 1;
  std::size_t parts = 1;
  std::vector<std::size_t> part_of_head;
  std::vector<Share> shares;
  Index largest_share_count = 1;  // most parts of one key/value head

  bool divided() const { return largest_share_count > 1; }
};

// The listed heads of a factor [rows, heads * width], side by side.
template <class Real>
Factor<Real> heads_of(const Factor<Real>& factor, const std::vector<Index>& heads, Index width) {
  Factor<Real> result{factor.rows,
                      static_cast<Index>(heads.size()) * width,
                      {},
                      {},
                      factor.operand,
                      factor.shared,
                      factor.bits,
                      factor.grid};
  for (Index row = 0; row < factor.rows; ++row) {
    for (Index head : heads) {
      const auto first = static_cast<std::ptrdiff_t>(factor.at(row, head * width));
      const auto values = factor.values.begin() + first;
      result.values.insert(result.values.end(), values, values + width);
      if (factor.errors.empty()) continue;
      const auto errors = factor.errors.begin() + first;
      result.errors.insert(result.errors.end(), errors, errors + width);
    }
  }
  return result;
}

// Where the error of some logit may exceed kVagueExponent, the softmax may be anything and the
// problem says nothing about a subject: every result of that head and batch entry gets an infinite
// bound. `k` has problem.kv_heads heads.
inline constexpr double kVagueExponent = 20;
template <class Real>
void open_vague_heads(const Problem& problem, const Factor<Real>& q, const Factor<Real>& k,
                      AttentionBounds& bounds);

}  // namespace shardproof
