// The kernels of block-wise attention's forward pass.
#pragma once

#include <cstdint>

#include "harness/devices/cuda/kernels/views.h"

namespace shardproof::kernels {

// Positions of equally spaced tokens.
struct Line {
  Index first = 0;
  Index step = 1;

  SHARDPROOF_KERNEL Index at(Index local) const { return first + local * step; }
};

// ScoreRule and what it is applied to.
template <typename T>
struct Logits {
  Matrix scores;  // [n, m]
  Matrix bias;    // [n, m], or no data
  const std::uint8_t* visible = nullptr;
  T scale = 1;
  T softcap = 0;
  T alibi_slope = 0;
  Line queries;
  Line keys;

  SHARDPROOF_KERNEL bool sees(Index i, Index j) const {
    return visible[i * scores.columns + j] != 0;
  }

  // `bend`: tanh of the capped score, 0 without a cap.
  SHARDPROOF_KERNEL T at(Index i, Index j, T& bend) const {
    T logit = scale * scores.get<T>(i, j);
    bend = 0;
    if (softcap != 0) {
      bend = std::tanh(logit / softcap);
      logit = softcap * bend;
    }
    if (alibi_slope != 0) {
      const Index distance = queries.at(i) - keys.at(j);
      logit -= alibi_slope * static_cast<T>(distance < 0 ? -distance : distance);
    }
    if (bias.data != nullptr) logit += bias.get<T>(i, j);
    return logit;
  }
  SHARDPROOF_KERNEL T at(Index i, Index j) const {
    T bend = 0;
    return at(i, j, bend);
  }
};

// A block takes a row. Logits are formed twice, as scores may be stored in less than T.
template <typename T>
struct OnlineSoftmax {
  static constexpr bool kMeets = true;
  Logits<T> logits;
  DType probability = DType::kF32;
  Vector maximum;
  Vector normalizer;
  Matrix accumulator;  // [n, dv]

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    for_rows(block, logits.scores.rows, [&](Index i) { take_row(block, i); });
  }

  template <class Block>
  SHARDPROOF_KERNEL void take_row(Block& block, Index i) const {
    const Index keys = logits.scores.columns;
    const T before = maximum.get<T>(i);
    T mine = before;
    for_mine(block, keys, [&](Index j) {
      if (logits.sees(i, j)) mine = Largest()(mine, logits.at(i, j));
    });
    const T largest = over_block(block, mine, Largest());
    if (largest == -infinity<T>()) {  // nothing seen so far
      for_mine(block, keys, [&](Index j) { logits.scores.set(i, j, T{0}); });
      return;
    }
    T sum = 0;
    for_mine(block, keys, [&](Index j) {
      const T weight = logits.sees(i, j) ? std::exp(logits.at(i, j) - largest) : T{0};
      sum += weight;
      logits.scores.set(i, j, rounded(probability, weight));
    });
    const T total = over_block(block, sum, Sum());
    const T rescale = std::exp(before - largest);
    if (rescale != 1) {
      for_mine(block, accumulator.columns,
               [&](Index d) { accumulator.set(i, d, accumulator.get<T>(i, d) * rescale); });
    }
    if (block.thread() == 0) {
      normalizer.set(i, normalizer.get<T>(i) * rescale + total);
      maximum.set(i, largest);
    }
  }
};

// A block takes a row.
template <typename T>
struct FinishSoftmax {
  static constexpr bool kMeets = false;
  Matrix accumulator;  // [n, dv]
  Vector maximum;
  Vector normalizer;
  Matrix out;
  Vector lse;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    for_rows(block, accumulator.rows, [&](Index i) {
      const T largest = maximum.get<T>(i);
      const T total = normalizer.get<T>(i);
      const bool empty = largest == -infinity<T>();
      for_mine(block, accumulator.columns,
               [&](Index d) { out.set(i, d, empty ? T{0} : accumulator.get<T>(i, d) / total); });
      if (block.thread() == 0) lse.set(i, empty ? largest : largest + std::log(total));
    });
  }
};

}  // namespace shardproof::kernels
