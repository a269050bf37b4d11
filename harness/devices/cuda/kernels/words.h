// The loss over a vocabulary whose words ranks share: logits [n, m] of words first, first + 1, ...
#pragma once

#include "harness/devices/cuda/kernels/views.h"

namespace shardproof::kernels {

// The largest of each row: -inf where there is none, NaN where one is.
template <typename T>
struct RowMaxima {
  static constexpr bool kMeets = true;
  Matrix from;
  Vector maxima;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    for_rows(block, from.rows, [&](Index i) {
      T mine = -infinity<T>();
      for_mine(block, from.columns, [&](Index j) { mine = Largest()(mine, from.get<T>(i, j)); });
      const T largest = over_block(block, mine, Largest());
      if (block.thread() == 0) maxima.set(i, largest);
    });
  }
};

// Whether column `j` holds the word `label`, which is below 0 where a token has none.
template <typename T>
SHARDPROOF_KERNEL bool is_label(T label, Index first, Index j) {
  return label >= 0 && static_cast<Index>(label) == first + j;
}

// sums [3, n]: of exp(logit - maximum), the label's logit or 0, of the logits.
template <typename T>
struct WordSums {
  static constexpr bool kMeets = true;
  Matrix logits;
  Index first = 0;
  Vector labels;
  Vector maxima;
  Matrix sums;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    for_rows(block, logits.rows, [&](Index i) {
      const T maximum = maxima.get<T>(i);
      const T label = labels.get<T>(i);
      T exponentials = 0;
      T plain = 0;
      T own = 0;
      for_mine(block, logits.columns, [&](Index j) {
        const T logit = logits.get<T>(i, j);
        exponentials += std::exp(logit - maximum);
        plain += logit;
        if (is_label(label, first, j)) own = logit;
      });
      exponentials = over_block(block, exponentials, Sum());
      plain = over_block(block, plain, Sum());
      own = over_block(block, own, Sum());  // of one that is not 0 at most
      if (block.thread() != 0) return;
      sums.set(0, i, exponentials);
      sums.set(1, i, own);
      sums.set(2, i, plain);
    });
  }
};

// lse [n], loss [n], totals [2] = sum of the losses, number of labels: one block takes all tokens.
template <typename T>
struct WordLosses {
  static constexpr bool kMeets = true;
  T smoothing = 0;
  T words = 1;
  Vector labels;
  Vector maxima;
  Matrix sums;
  Vector lse;
  Vector loss;
  Vector totals;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    if (block.index() > 0) return;
    T mine = 0;
    T labelled = 0;
    for_mine(block, lse.count, [&](Index i) {
      const T log_sum = maxima.get<T>(i) + std::log(sums.get<T>(0, i));
      lse.set(i, log_sum);
      T result = 0;
      if (labels.get<T>(i) >= 0) {
        result = log_sum - (T{1} - smoothing) * sums.get<T>(1, i);
        if (smoothing != 0) result -= smoothing * (sums.get<T>(2, i) / words);
        labelled += 1;
      }
      loss.set(i, result);
      mine += result;
    });
    const T total = over_block(block, mine, Sum());
    const T number = over_block(block, labelled, Sum());
    if (block.thread() != 0) return;
    totals.set(0, total);
    totals.set(1, number);
  }
};

// dlogits = (exp(logit - lse) - target) (dloss + dmean), 0 without a label.
template <typename T>
struct WordGradients {
  static constexpr bool kMeets = false;
  T smoothing = 0;
  T words = 1;
  Matrix logits;
  Index first = 0;
  Vector labels;
  Vector lse;
  Vector dloss;
  Vector dmean;
  Matrix dlogits;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    const T share = smoothing / words;
    for_elements(block, logits.rows, logits.columns, [&](Index i, Index j) {
      const T label = labels.get<T>(i);
      T gradient = 0;
      if (label >= 0) {
        const T own = is_label(label, first, j) ? T{1} - smoothing : T{0};
        const T difference = std::exp(logits.get<T>(i, j) - lse.get<T>(i)) - own - share;
        gradient = difference * (dloss.get<T>(i) + dmean.get<T>(0));
      }
      dlogits.set(i, j, gradient);
    });
  }
};

}  // namespace shardproof::kernels
