// For tests: an honest vocabulary-parallel loss that keeps a contract, in one of the forms that
// CrossEntropyBound speaks of, and faulty ones.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "reference/cross_entropy.h"
#include "reference/emulation.h"

namespace shardproof {

enum class LossFault {
  kNone,
  kMaximumOfPart,    // each part's exponentials less its own maximum
  kPaddingCounted,   // the padding takes part
  kSmoothingOfPart,  // spread over the words of the first part
  kMeanOfMeans,      // each part's mean, then their mean
  kLowSum,           // exponentials added in bf16
};

template <class F>
class CrossEntropyEmulation {
 public:
  using Outputs = std::map<std::string, std::vector<double>, std::less<>>;

  CrossEntropyEmulation(const Problem& problem, const Contract& contract, LossFault fault,
                        std::uint64_t seed)
      : problem_(problem),
        precision_(contract.precision),
        fault_(fault),
        dice_(seed),
        words_(contract.partitions.summed),
        tokens_(contract.partitions.queries),
        smoothing_(static_cast<F>(effective_smoothing(problem))),
        style_(static_cast<int>(dice_.below(3))),
        library_(dice_.chance(50) ? 0 : 1) {
    const std::vector<TensorSpec> specs = problem.op->tensors(problem);
    const std::vector<double> logits = whole_tensor(problem, specs[0]);
    logits_.assign(logits.begin(), logits.end());
    labels_ = labels_of(problem, whole_tensor(problem, specs[1]));
    const std::vector<double> dloss = whole_tensor(problem, specs[2]);
    dloss_.assign(dloss.begin(), dloss.end());
    dmean_ = static_cast<F>(whole_tensor(problem, specs[3])[0]);
    if (words_.empty()) words_ = dice_.partition(problem.vocab, 1);
    if (tokens_.empty()) tokens_ = dice_.partition(problem.tokens, 1);
    if (fault == LossFault::kPaddingCounted) {
      for (Index j = problem.vocab; j < columns_of(problem); ++j) words_.back().push_back(j);
    }
  }

  Outputs run() {
    for (std::size_t row = 0; row < labels_.size(); ++row) forward(row);
    set_mean();
    outputs_["dlogits"].resize(logits_.size());
    for (std::size_t row = 0; row < labels_.size(); ++row) backward(row);
    return outputs_;
  }

 private:
  F logit(std::size_t row, Index word) const { return logits_[at(row, word)]; }
  std::size_t at(std::size_t row, Index word) const {
    return row * static_cast<std::size_t>(columns_of(problem_)) + static_cast<std::size_t>(word);
  }

  // A library that is up to two units in the last place off, alike for like arguments.
  F unsure(F exact, F argument) const {
    if (library_ == 0) return exact;
    const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(argument));
    const F units = static_cast<F>(static_cast<int>(mix(bits) % 5) - 2) * F(0.75);
    return exact * (1 + units * std::numeric_limits<F>::epsilon());
  }
  F exponential(F x) const { return x == 0 ? F{1} : unsure(std::exp(x), x); }
  F logarithm(F x) const { return x == 1 ? F{0} : unsure(std::log(x), x); }

  F sum(const std::vector<F>& terms) {
    const bool low = fault_ == LossFault::kLowSum;
    if (style_ == 2 && !low) return pairwise(terms.data(), terms.size());
    F total = 0;
    const auto order = dice_.permutation(static_cast<Index>(terms.size()));
    for (std::size_t i = 0; i < terms.size(); ++i) {
      total += terms[style_ == 0 ? i : static_cast<std::size_t>(order[i])];
      if (low) total = rounded(DType::kBf16, total);
    }
    return total;
  }

  static F pairwise(const F* terms, std::size_t count) {
    if (count == 0) return 0;
    if (count == 1) return terms[0];
    return pairwise(terms, count / 2) + pairwise(terms + count / 2, count - count / 2);
  }

  static F rounded(DType type, F value) { return Arithmetic<F>::rounded(type, value); }

  F all_reduce(const std::vector<F>& parts) {
    if (parts.size() == 1) return parts[0];
    const auto order = dice_.permutation(static_cast<Index>(parts.size()));
    F total = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const F part = rounded(precision_.reduction, parts[static_cast<std::size_t>(order[i])]);
      total = i == 0 ? part : rounded(precision_.reduction, total + part);
    }
    return total;
  }

  // Of one part, about `maximum`: at once or, rescaled, in as many chunks as the contract permits.
  F part_sum(std::size_t row, const std::vector<Index>& part, F maximum) {
    const Index chunks = online_ ? precision_.rescales : 1;
    F running = online_ ? -std::numeric_limits<F>::infinity() : maximum;
    F total = 0;
    for (Index chunk = 0; chunk < chunks; ++chunk) {
      const auto [first, count] = even_part(static_cast<Index>(part.size()), chunks, chunk);
      const auto begin = part.begin() + first;
      F largest = running;
      for (auto word = begin; word != begin + count; ++word) {
        largest = std::max(largest, logit(row, *word));
      }
      if (count == 0) continue;
      std::vector<F> terms;
      for (auto word = begin; word != begin + count; ++word) {
        terms.push_back(exponential(logit(row, *word) - largest));
      }
      if (total != 0) total *= exponential(running - largest);
      total += sum(terms);
      running = largest;
    }
    if (fault_ == LossFault::kMaximumOfPart || total == 0) return total;
    return running == maximum ? total : total * exponential(running - maximum);
  }

  void forward(std::size_t row) {
    online_ = precision_.rescales > 0 && dice_.chance(50);
    if (fault_ == LossFault::kMaximumOfPart) online_ = true;
    F maximum = -std::numeric_limits<F>::infinity();
    for (const auto& part : words_) {
      for (Index word : part) maximum = std::max(maximum, logit(row, word));
    }
    std::vector<F> exponentials, sums;
    for (const auto& part : words_) {
      exponentials.push_back(part_sum(row, part, maximum));
      std::vector<F> terms;
      for (Index word : part) terms.push_back(logit(row, word));
      sums.push_back(sum(terms));
      if (fault_ == LossFault::kSmoothingOfPart) break_smoothing(sums);
    }
    const F normaliser = all_reduce(exponentials);
    const F mean = all_reduce(sums) / static_cast<F>(smoothed_over_);
    const F lse = rounded(precision_.lse, maximum + logarithm(normaliser));
    maxima_.push_back(maximum);
    normalisers_.push_back(normaliser);
    lse_.push_back(lse);
    losses_.push_back(labels_[row] < 0 ? F{0} : loss(row, maximum, normaliser, mean));
    outputs_["lse"].push_back(static_cast<double>(lse));
    outputs_["loss"].push_back(static_cast<double>(losses_.back()));
  }

  // Only the first part's words count.
  void break_smoothing(std::vector<F>& sums) {
    smoothed_over_ = std::max<std::size_t>(words_[0].size(), 1);
    if (sums.size() > 1) sums.back() = 0;
  }

  F loss(std::size_t row, F maximum, F normaliser, F mean) {
    const F own = logit(row, labels_[row]);
    const F lse = lse_.back();
    switch (dice_.below(3)) {
      case 0:
        if (smoothing_ == 0) return logarithm(normaliser) - (own - maximum);
        [[fallthrough]];
      case 1:
        return (1 - smoothing_) * (lse - own) + smoothing_ * (lse - mean);
      default:
        return lse - (1 - smoothing_) * own - smoothing_ * mean;
    }
  }

  void set_mean() {
    for (Index label : labels_) count_ += label >= 0 ? 1 : 0;
    const int form = static_cast<int>(dice_.below(3));
    std::vector<F> parts;
    F means = 0;
    for (const auto& part : tokens_) {
      std::vector<F> terms;
      F local = 0;
      for (std::size_t row = 0; row < labels_.size(); ++row) {
        const Index token = static_cast<Index>(row) % problem_.tokens;
        if (std::find(part.begin(), part.end(), token) == part.end() || labels_[row] < 0) continue;
        terms.push_back(form == 2 ? losses_[row] / count_ : losses_[row]);
        ++local;
      }
      parts.push_back(sum(terms));
      means += local > 0 ? parts.back() / local : F{0};
    }
    const F total = all_reduce(parts);
    F mean = form == 2 ? total : form == 1 ? total * (1 / count_) : total / count_;
    if (fault_ == LossFault::kMeanOfMeans) mean = means / static_cast<F>(tokens_.size());
    outputs_["mean"] = {count_ > 0 ? static_cast<double>(mean) : 0.0};
  }

  void backward(std::size_t row) {
    const Index label = labels_[row];
    if (label < 0) return;
    const int form = static_cast<int>(dice_.below(4));
    const F shared = dmean_ / count_;
    const F upstream = dloss_[row] + shared;
    const F share = smoothing_ / static_cast<F>(problem_.vocab);
    for (Index word = 0; word < problem_.vocab; ++word) {
      const F x = logit(row, word);
      const F p =
          form % 2 ? exponential(x - lse_[row]) : exponential(x - maxima_[row]) / normalisers_[row];
      const F own = word == label ? 1 - smoothing_ : F{0};
      const F result = form == 0   ? (p - own - share) * upstream
                       : form == 1 ? (p - (own + share)) * upstream
                       : form == 2 ? p * upstream - (own + share) * upstream
                                   : (p - own - share) * dloss_[row] + (p - own - share) * shared;
      outputs_["dlogits"][at(row, word)] = round_to(precision_.io, static_cast<double>(result));
    }
  }

  Problem problem_;
  Precision precision_;
  LossFault fault_;
  Dice dice_;
  Partition words_;
  Partition tokens_;
  F smoothing_;
  int style_;
  int library_;
  bool online_ = false;
  std::size_t smoothed_over_ = static_cast<std::size_t>(problem_.vocab);
  std::vector<F> logits_, dloss_, maxima_, normalisers_, lse_, losses_;
  std::vector<Index> labels_;
  F dmean_ = 0;
  F count_ = 0;
  Outputs outputs_{{"loss", {}}, {"lse", {}}, {"mean", {}}, {"dlogits", {}}};
};

}  // namespace shardproof
