// The words of the vocabulary whose logits one rank holds, and what it computes of the loss for its
// tokens. The padding after the last word is never read, and its gradient is 0.
#pragma once

#include <algorithm>

#include "parallel_impls/linear.h"
#include "parallel_impls/shards.h"

namespace shardproof {

// The rank's words: the columns that it holds, less padding.
inline Range words_held(Rank& rank) {
  const auto columns = rank.owned("logits", 2);
  const auto end = std::lower_bound(columns.begin(), columns.end(), rank.problem().vocab);
  return {columns.empty() ? 0 : columns.front(), end - columns.begin()};
}

// The columns of logits or dlogits that are words, [tokens, words].
inline View word_columns(Rank& rank, std::string_view tensor) {
  return as_matrix(rank.get(tensor), 2).slice(1, 0, words_held(rank).count);
}

inline TargetRule target_rule(const Problem& problem) {
  return {effective_smoothing(problem), problem.vocab};
}

// The labels of the rank's tokens: the ids that follow them in the whole sequences [batch, tokens].
inline Tensor labels_from(Rank& rank, const View& sequences) {
  const auto positions = rank.owned("ids", 1);
  Tensor labels = rank.make(DType::kF32, rank.get("ids").shape);
  Index local = 0;
  for (Index position : positions) {
    const View label = labels.view().slice(1, local++, 1);
    if (position + 1 < rank.problem().tokens) {
      rank.device().copy(sequences.slice(1, position + 1, 1), label);
    } else {
      rank.device().fill(label, -1);
    }
  }
  return labels;
}

// A vector with an element for each token of the rank.
inline Tensor statistics(Rank& rank, Index rows) {
  const Index tokens = rank.get("ids").elements();
  return rank.make(accumulator_of(rank.problem().dtype), {rows, tokens});
}

// The largest logit of each token among the rank's words, [tokens].
inline Tensor largest_logits(Rank& rank) {
  Tensor maxima = statistics(rank, 1);
  rank.device().row_maxima(word_columns(rank, "logits"), as_vector(maxima));
  return maxima;
}

// The sums over the rank's words that the loss is made of, [3, tokens].
inline Tensor sums_of_words(Rank& rank, const View& labels, const View& maxima) {
  Tensor sums = statistics(rank, 3);
  const Index first = words_held(rank).first;
  rank.device().word_sums(word_columns(rank, "logits"), first, as_vector(labels), as_vector(maxima),
                          sums);
  return sums;
}

// Stores the losses and lse; returns the sum of the losses and the number of labels, [2].
inline Tensor store_losses(Rank& rank, const View& labels, const View& maxima, const View& sums) {
  Tensor totals = rank.make(sums.dtype, {2});
  rank.device().word_losses(target_rule(rank.problem()), as_vector(labels), as_vector(maxima), sums,
                            as_vector(rank.get("lse")), as_vector(rank.get("loss")), totals);
  return totals;
}

// Stores the mean of the losses of all tokens that have a label; 0 when none has one.
inline void store_mean(Rank& rank, const View& totals) {
  const View count = totals.slice(0, 1, 1);
  const View mean = rank.get("mean");
  rank.device().at_least(1, count);
  rank.device().copy(totals.slice(0, 0, 1), mean);
  rank.device().divide(count, mean);
}

// Stores the gradient of the rank's logits. Every loss has a share of the mean's upstream gradient.
inline void store_gradients(Rank& rank, const View& labels, const View& count) {
  Device& device = rank.device();
  Tensor share = rank.make(count.dtype, {1});
  device.copy(rank.get("dmean"), share);
  device.divide(count, share);
  device.fill(rank.get("dlogits"), 0);
  device.word_gradients(target_rule(rank.problem()), word_columns(rank, "logits"),
                        words_held(rank).first, as_vector(labels), as_vector(rank.get("lse")),
                        as_vector(rank.get("dloss")), share, word_columns(rank, "dlogits"));
}

// All statistics are in the accumulator's type, and the maximum is known before any exponential.
inline Contract word_contract(const Case& value, Partition words, Partition tokens) {
  Contract contract;
  contract.precision = precision_of(value.problem);
  contract.precision.rescales = 0;
  contract.partitions.summed = std::move(words);
  contract.partitions.queries = std::move(tokens);
  return contract;
}

}  // namespace shardproof
