// Recipe: the values of one tensor as the problem's data recipe draws them, before they are scaled,
// rounded and edited. A pure function of (seed, tensor, position).
#pragma once

#include <cstdint>

#include "harness/model/element.h"

namespace shardproof {

// The step of a low-discrepancy sequence: 2^64 / golden ratio.
inline constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ull;

class Recipe {
 public:
  // Both are kept by reference.
  Recipe(const Problem& problem, const TensorSpec& spec);

  // The value at a global row-major position.
  double operator()(Index position) const;

  // The random bits of a position; other ones for tokens that the problem's edit draws anew.
  std::uint64_t bits(Index position) const { return bits(position, position); }

  Index token(Index position) const;
  Index tokens() const { return tokens_; }
  Index token_stride() const { return token_stride_; }  // elements from one token to the next
  Index row_length() const { return row_length_; }

 private:
  std::uint64_t bits(Index position, Index counter) const;
  bool is_redrawn(Index position) const;
  bool makes_scores() const;
  double heavy_tailed(double n, Index position) const;
  double peaked(double n) const;
  double ramped(double n, Index position) const;
  double sunken(double n, Index position) const;
  double cancelling(double n) const;
  double tiny(double n, Index position) const;
  double huge(double n) const;
  double integer(Index position) const;
  double coordinate(Index position) const;

  const Problem& problem_;
  const TensorSpec& spec_;
  std::uint64_t base_;
  bool scores_ = false;           // whether the operator has a softmax over keys
  bool projects_scores_ = false;  // whether queries and keys are projected from this tensor
  Index row_length_ = 1;
  Index tokens_ = 1;
  Index token_stride_ = 1;
};

}  // namespace shardproof
