// The kernels of block-wise attention's backward pass, and dropout.
#pragma once

#include "harness/devices/cuda/kernels/softmax.h"

namespace shardproof::kernels {

// delta [n] = rowsum(dout * out) - dlse
template <typename T>
struct RowDelta {
  static constexpr bool kMeets = true;
  Matrix dout;
  Matrix out;
  Vector dlse;  // or no data
  Vector delta;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    for_rows(block, dout.rows, [&](Index i) {
      T mine = 0;
      for_mine(block, dout.columns, [&](Index d) { mine += dout.get<T>(i, d) * out.get<T>(i, d); });
      const T sum = over_block(block, mine, Sum());
      if (block.thread() != 0) return;
      delta.set(i, dlse.data == nullptr ? sum : sum - dlse.get<T>(i));
    });
  }
};

// scores: in q k^T, out exp(logit - lse), 0 where hidden; cap_slope: the derivative of the softcap.
template <typename T>
struct Probabilities {
  static constexpr bool kMeets = false;
  Logits<T> logits;
  Vector lse;
  Matrix cap_slope;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    const Index keys = logits.scores.columns;
    for_elements(block, logits.scores.rows, keys, [&](Index i, Index j) {
      T bend = 0;
      const T logit = logits.at(i, j, bend);
      logits.scores.set(i, j, logits.sees(i, j) ? std::exp(logit - lse.get<T>(i)) : T{0});
      cap_slope.set(i, j, T{1} - bend * bend);
    });
  }
};

// gradient: in dP, out P (dP - delta); cap_slope: that times itself, rounded. 0 where P is.
template <typename T>
struct ScoreGradients {
  static constexpr bool kMeets = false;
  Matrix probability;
  Vector delta;
  DType rounding = DType::kF32;
  Matrix gradient;
  Matrix cap_slope;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    for_elements(block, gradient.rows, gradient.columns, [&](Index i, Index j) {
      const T weight = probability.get<T>(i, j);
      T of_logit = 0;
      T of_score = 0;
      if (weight != 0) {  // hidden elements may meet NaN
        of_logit = weight * (gradient.get<T>(i, j) - delta.get<T>(i));
        of_score = of_logit * cap_slope.get<T>(i, j);
      }
      gradient.set(i, j, of_logit);
      cap_slope.set(i, j, rounded(rounding, of_score));
    });
  }
};

// The finaliser of SplitMix64 (Steele et al. 2014), which decides what dropout keeps.
SHARDPROOF_KERNEL inline std::uint64_t scrambled(std::uint64_t bits) {
  bits ^= bits >> 30;
  bits *= 0xbf58476d1ce4e5b9ull;
  bits ^= bits >> 27;
  bits *= 0x94d049bb133111ebull;
  return bits ^ (bits >> 31);
}

// weights [n, m]: kept ones times the factor, the others 0. is_kept() in problem.h says which.
template <typename T>
struct Drop {
  static constexpr bool kMeets = false;
  std::uint64_t seed = 0;
  double probability = 0;
  T factor = 1;
  Index batch = 0;
  Index head = 0;
  Line queries;
  Line keys;
  Matrix weights;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    for_elements(block, weights.rows, weights.columns, [&](Index i, Index j) {
      const bool kept = keeps(queries.at(i), keys.at(j));
      weights.set(i, j, kept ? factor * weights.get<T>(i, j) : T{0});
    });
  }

  SHARDPROOF_KERNEL bool keeps(Index query, Index key) const {
    std::uint64_t bits = scrambled(seed + 1);
    bits = scrambled(bits + static_cast<std::uint64_t>(batch) + 1);
    bits = scrambled(bits + static_cast<std::uint64_t>(head) + 1);
    bits = scrambled(bits + static_cast<std::uint64_t>(query) + 1);
    bits = scrambled(bits + static_cast<std::uint64_t>(key) + 1);
    return static_cast<double>(bits >> 11) * 0x1p-53 >= probability;
  }
};

}  // namespace shardproof::kernels
