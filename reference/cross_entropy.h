// The next-word loss of language models: -sum_j q_j log p_j with p = softmax(logits) and the target
// q, which gives its label 1 - smoothing and spreads the rest evenly over all words (Szegedy et al.
// 2016), the mean of the losses over all tokens that have a label, and the gradient.
#pragma once

#include <span>

#include "harness/model/operator.h"
#include "reference/carried.h"

namespace shardproof {

const Operator& cross_entropy_operator();

// The logits' last dimension: words, then padding, which takes no part in anything.
inline Index columns_of(const Problem& problem) { return problem.vocab + problem.padding; }

// The label of every token, [batch, tokens]: the word after it. -1: none, as that word is to be
// ignored or the token is the last of its sequence.
std::vector<Index> labels_of(const Problem& problem, const std::vector<double>& ids);

// One token, exactly.
struct WordRow {
  std::span<const double> logits;  // of the words
  Index label = -1;
  double maximum = 0;
  double normaliser = 0;  // sum of exp(logit - maximum)
  double lse = 0;
  double mean = 0;  // of the logits
  double loss = 0;  // 0 without a label
};

// What a contract permits for each result. The subject that it speaks of computes, all in
// precision.elementwise: the row's maximum; the sum of exp(logit - maximum) over the words of each
// of partitions.summed, all-reduced, or the same with a running maximum (precision.rescales); lse =
// maximum + log(sum); the loss as lse - (1 - s) label's logit - s mean, or each of the two weighted
// after the difference, or, without smoothing, from logits less the maximum; p as exp(logit - lse)
// or exp(logit - maximum) / sum. exp(0) is 1 and log(1) is 0. The mean is a sum over the tokens of
// each of partitions.queries, all-reduced, and divided by their number in the end or before.
class CrossEntropyBound {
 public:
  CrossEntropyBound(const Problem& problem, const Contract& contract);

  Bound lse(const WordRow& row) const;
  Bound loss(const WordRow& row, const Bound& lse) const;
  Bound mean(const std::vector<double>& losses, const std::vector<Bound>& bounds) const;

  // (p - q) (dloss + dmean / count) for one word; `count` tokens have a label.
  Bound gradient(const WordRow& row, const Bound& lse, Index word, double dloss, double dmean,
                 double count) const;

 private:
  Bound sum_of_exponentials(const WordRow& row) const;
  Bound sum_of_logits(const WordRow& row) const;
  double reduction_error(const Partition& parts, double absolute) const;

  double smoothing_;
  double words_;
  ProductRule rule_;
  double u_;    // of every elementary operation
  double eta_;  // likewise
  Partition word_parts_;
  Partition token_parts_;
};

}  // namespace shardproof
