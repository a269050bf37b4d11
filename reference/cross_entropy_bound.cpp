// How the errors of the loss and its gradient follow from those of the sum of exponentials.
#include <algorithm>
#include <cmath>

#include "reference/cross_entropy.h"

namespace shardproof {
namespace {

// An error whose worst and likely sizes are known and that counts linearly.
Bound linear(double worst, double likely) {
  Bound bound;
  bound.add(likely);
  bound.worst = worst;
  return bound;
}

// How often the most frequent of sorted values occurs: equal terms round equally.
double most_equal(const std::vector<double>& sorted) {
  std::size_t most = 1;
  std::size_t first = 0;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i] != sorted[first]) first = i;
    most = std::max(most, i - first + 1);
  }
  return static_cast<double>(most);
}

// A sum of `terms` values, in any order and by any tree: each partial sum is rounded.
Family sum_family(double u, double terms, double sum, double squares, double absolute) {
  const double additions = std::max(terms - 1, 0.0);
  return {additions * u * (absolute + std::fabs(sum)) / 2,
          additions * u * u * (sum * sum / 3 + kWalkEnergy * squares), 0};
}

}  // namespace

CrossEntropyBound::CrossEntropyBound(const Problem& problem, const Contract& contract)
    : smoothing_(effective_smoothing(problem)),
      words_(static_cast<double>(problem.vocab)),
      rule_(contract.precision, true),
      u_(rule_.units.elementwise.u),
      eta_(rule_.units.elementwise.eta),
      word_parts_(contract.partitions.summed),
      token_parts_(contract.partitions.queries) {}

// Sums over ranks: few terms, counted linearly. Each part is first rounded where the type is
// narrower; adding an empty one rounds nothing.
double CrossEntropyBound::reduction_error(const Partition& parts, double absolute) const {
  if (parts.size() <= 1 || absolute == 0) return 0;
  const auto held = std::count_if(parts.begin(), parts.end(),
                                  [](const std::vector<Index>& part) { return !part.empty(); });
  const Rounding& type = rule_.units.reduction;
  const double roundings = static_cast<double>(held - 1) + rule_.units.reduction_narrower;
  return roundings * (type.u * absolute + 2 * type.eta);
}

// Relative to the sum. An exponential has the error of its argument, the library's, and that of the
// rescalings; one whose argument is 0 has none. Equal logits have equal errors.
Bound CrossEntropyBound::sum_of_exponentials(const WordRow& row) const {
  const Units& units = rule_.units;
  if (!(row.normaliser < kUnbounded)) return Bound::unbounded();
  std::vector<double> sorted(row.logits.begin(), row.logits.end());
  std::sort(sorted.begin(), sorted.end());
  const double rescaling = rule_.precision.rescales * (units.exp_error + 2 * u_);
  const double below = (2 * rule_.precision.ulp_exp + 1) * eta_;
  Family terms;
  double squares = 0;
  std::size_t end = 0;
  for (std::size_t first = 0; first < sorted.size(); first = end) {
    while (end < sorted.size() && sorted[end] == sorted[first]) ++end;
    const double count = static_cast<double>(end - first);
    const double distance = row.maximum - sorted[first];
    const double share = std::exp(-distance) / row.normaliser;
    squares += count * share * share;
    if (distance == 0) continue;
    const double error = u_ * distance + units.exp_error + rescaling;
    const double total = count * (share * relative_growth(error) + below / row.normaliser);
    terms.worst += total;
    terms.square += square(total);
  }
  Bound bound;
  bound.add(terms);
  // Ones add up exactly.
  const bool counts_words = row.normaliser == words_ && words_ * units.reduction.u < 1;
  if (!counts_words) {
    bound.add(sum_family(u_, words_, 1, squares, 1), most_equal(sorted));
    bound.add(reduction_error(word_parts_, 1));
  }
  const Format& f = format(rule_.precision.reduction);
  return row.normaliser < f.overflow_threshold ? bound : Bound::unbounded();
}

// |log(1 + r)| <= |r| (1 + |r|) for |r| < 2/3. Adding the maximum, a number of the type, loses at
// most what is added, and what the reference loses there.
Bound CrossEntropyBound::lse(const WordRow& row) const {
  const Units& units = rule_.units;
  const Bound sum = sum_of_exponentials(row);
  if (!(sum.worst < 0.5)) return Bound::unbounded();
  Bound bound = sum.scaled(1 + sum.worst);
  const double added = std::log(row.normaliser);
  if (sum.worst > 0 || added > 0) {
    const double rounding = units.elementwise.half_unit(std::fabs(row.lse) + sum.worst);
    const double reference = half_ulp(DType::kF64, std::fabs(row.lse));
    bound.add(units.log_error * added + std::min(rounding, added + sum.worst + reference));
  }
  const Rounding narrower = narrowing(rule_.precision.elementwise, rule_.precision.lse);
  if (narrower.exists()) bound.add(narrower.half_unit(std::fabs(row.lse) + bound.worst));
  return bound;
}

// Of the all-reduced sum of the logits.
Bound CrossEntropyBound::sum_of_logits(const WordRow& row) const {
  std::vector<double> sorted(row.logits.begin(), row.logits.end());
  std::sort(sorted.begin(), sorted.end());
  double absolute = 0;
  double squares = 0;
  for (double logit : sorted) {
    absolute += std::fabs(logit);
    squares += logit * logit;
  }
  const double sum = row.mean * words_;
  Bound bound;
  bound.add(sum_family(u_, words_, sum, squares, absolute), most_equal(sorted));
  bound.add(reduction_error(word_parts_, absolute));
  return absolute < format(rule_.precision.reduction).overflow_threshold ? bound
                                                                         : Bound::unbounded();
}

// The roundings of the final differences. Without smoothing that is one, of the loss; two when the
// maximum was subtracted first, as the loss is at least what either has lost. With smoothing each
// of the weighted terms sees at most three, in whatever order they are combined.
Bound CrossEntropyBound::loss(const WordRow& row, const Bound& lse) const {
  if (row.label < 0) return {};
  if (!(row.loss < kUnbounded)) return Bound::unbounded();
  Bound bound = lse;
  const double logit = std::fabs(row.logits[static_cast<std::size_t>(row.label)]);
  const double weight = 1 - smoothing_;
  const Rounding narrower = narrowing(rule_.precision.io, rule_.precision.reduction);
  if (narrower.exists()) bound.add(weight * narrower.half_unit(logit));
  if (smoothing_ == 0) {
    bound.add(2 * u_ * row.loss);
    return bound;
  }
  const double terms = std::fabs(row.lse) + weight * logit + smoothing_ * std::fabs(row.mean);
  bound.merge(sum_of_logits(row).scaled(smoothing_ / words_));
  bound.add(3 * u_ * terms + u_ * row.loss + 4 * eta_);
  return bound;
}

// The losses' errors may all be one: equal rows have equal errors.
Bound CrossEntropyBound::mean(const std::vector<double>& losses,
                              const std::vector<Bound>& bounds) const {
  const double count = static_cast<double>(losses.size());
  if (losses.empty()) return {};
  double sum = 0;
  double squares = 0;
  double worst = 0;
  double likely = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    sum += losses[i];
    squares += losses[i] * losses[i];
    worst += bounds[i].worst;
    likely += bounds[i].likely_case(1);
  }
  if (!(sum < format(rule_.precision.reduction).overflow_threshold)) return Bound::unbounded();
  std::vector<double> sorted = losses;
  std::sort(sorted.begin(), sorted.end());
  Bound bound = linear(worst, likely);
  bound.add(sum_family(u_, count, sum, squares, sum), most_equal(sorted));
  bound.add(reduction_error(token_parts_, sum));
  bound = bound.scaled(1 / count);
  bound.add(3 * u_ * sum / count + (sum > 0 ? 3 * eta_ : 0.0));
  return bound;
}

// p: its argument's error, through the exponential, and the library's. q: three roundings of its
// terms, and those of the differences. The upstream factor: a quotient, a sum, and the product,
// which may be formed term by term.
Bound CrossEntropyBound::gradient(const WordRow& row, const Bound& lse, Index word, double dloss,
                                  double dmean, double count) const {
  if (row.label < 0) return {};
  const Units& units = rule_.units;
  const double logit = row.logits[static_cast<std::size_t>(word)];
  const double p = std::exp(logit - row.maximum) / row.normaliser;
  const double q = (word == row.label ? 1 - smoothing_ : 0) + smoothing_ / words_;
  const double argument = std::fabs(logit - row.lse);
  const bool exact = lse.worst == 0 && argument == 0;
  const double own = exact ? 0 : u_ * (argument + 1) + units.exp_error;
  const double below = exact ? 0 : (2 * rule_.precision.ulp_exp + 2) * eta_;
  const double difference = std::fabs(p - q);
  const double roundings = exact && smoothing_ == 0 ? 0 : u_ * (2 * p + 4 * q) + below;
  const double factor = std::fabs(dloss + dmean / count);
  const double factor_error =
      u_ * (3 * std::fabs(dmean) / count + std::fabs(dloss) + factor) + 4 * eta_;
  const auto error = [&](double lse_error) {
    const double of_p = p * relative_growth(lse_error + own);
    const double of_difference = of_p + roundings;
    return factor * of_difference + factor_error * (difference + of_difference) +
           2 * u_ * difference * factor + (difference + of_difference > 0 ? 2 * eta_ : 0.0);
  };
  return linear(error(lse.worst), error(lse.likely_case(1)));
}

}  // namespace shardproof
