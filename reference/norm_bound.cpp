// How the errors of a norm and of its gradient follow from those of the mean and the variance.
#include <algorithm>
#include <cmath>

#include "harness/model/element.h"
#include "reference/norm_error.h"
#include "reference/norm_mlp.h"

namespace shardproof {
namespace {

constexpr double kRootUnits = 2;  // error of 1 / sqrt, in units of the last place

// How often the most frequent of these values occurs: equal terms round equally.
double most_equal(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::size_t most = 1;
  std::size_t first = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] != values[first]) first = i;
    most = std::max(most, i - first + 1);
  }
  return static_cast<double>(most);
}

// Sums that the error of a sum of these terms depends on.
struct Sums {
  explicit Sums(const std::vector<double>& terms) {
    for (double term : terms) {
      sum += term;
      absolute += std::fabs(term);
      squares += term * term;
    }
  }

  // In any order and by any tree: each partial sum is rounded.
  Carried error(double u, double multiplicity, double additions) const {
    return {additions * u * (absolute + std::fabs(sum)) / 2,
            additions * u * u * (sum * sum / 3 + kWalkEnergy * squares) * multiplicity, 0, 0};
  }

  double sum = 0;
  double absolute = 0;
  double squares = 0;
};

// 0 where either is, though the other be infinite.
double times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

// Times one factor after the other: the square of one alone may underflow.
Carried scaled(const Carried& error, double factor) {
  const double f = std::fabs(factor);
  if (f == 0) return {};
  return {f * error.worst, f * (f * error.square), f * error.common, 0};
}

Carried linear(double error) { return {error, 0, error, 0}; }

// What a relative error of v does to 1 / sqrt(v).
double root_growth(double relative) {
  return relative < 0.5 ? 1 / std::sqrt(1 - relative) - 1 : kUnbounded;
}

}  // namespace

NormBound::NormBound(const Problem& problem, const Contract& contract)
    : is_layer_(is_layer_norm(problem)),
      epsilon_(effective_epsilon(problem)),
      count_(static_cast<double>(problem.features)),
      divisions_(std::exp2(std::round(std::log2(count_))) == count_ ? 0 : 2),
      rule_(contract.precision, true),
      u_(rule_.units.elementwise.u),
      eta_(rule_.units.elementwise.eta),
      gamma_(whole_tensor(problem, problem.op->tensors(problem)[1])) {}

Carried NormBound::mean_error(const NormRow& row) const {
  if (!is_layer_) return {};
  const Sums sums(row.x);
  if (!(sums.absolute < format(rule_.precision.elementwise).overflow_threshold)) {
    return {kUnbounded, kUnbounded, kUnbounded, 0};
  }
  return scaled(sums.error(u_, most_equal(row.x), count_ - 1), 1 / count_) +
         linear(divisions_ * u_ * std::fabs(row.mean) + 2 * eta_);
}

// Two passes: each distance is rounded, and its square, which counts linearly as equal distances
// round equally; the distances from the true mean add up to 0, so that the mean's error enters by
// its square alone. One pass about a shift at most a standard deviation away: the mean square e of
// the distances is at most 2 variances, from which the square of their mean, at most one, is taken;
// |e| has a mean of at most sqrt(2) deviations and e^4 one of at most 8 (d^4 + variance^2).
Carried NormBound::variance_error(const NormRow& row, const Carried& mean) const {
  const double v = row.variance;
  double fourth = 0;
  for (double unit : row.unit) fourth += square(square(unit / row.factor)) / count_;
  if (!(v * count_ * 4 < format(rule_.precision.elementwise).overflow_threshold)) {
    return {kUnbounded, kUnbounded, kUnbounded, 0};
  }
  const double energy = is_layer_ ? 8.0 / 3 * v * v + 24 * kWalkEnergy * fourth / count_
                                  : v * v / 3 + kWalkEnergy * fourth / count_;
  const double terms = is_layer_ ? 4.5 * count_ + 16 : count_ + 3;
  const double each = is_layer_ ? 20 : 3;
  const double of_mean = 1 + 2 * (count_ + 4) * u_;
  const double below = 4 * eta_;
  std::vector<double> magnitudes(row.unit);
  for (double& unit : magnitudes) unit = std::fabs(unit);
  return {terms * u_ * v + square(mean.worst) * of_mean + below,
          (count_ - 1) * u_ * u_ * energy * most_equal(magnitudes),
          each * u_ * v + square(mean.likely()) * of_mean + below, 0};
}

RowError NormBound::row_error(const NormRow& row) const {
  RowError error;
  if (count_ == 0) return error;
  error.mean = mean_error(row);
  const Carried variance = scaled(variance_error(row, error.mean), 1 / (row.variance + epsilon_));
  const double likely = variance.likely() + u_;
  const double growth = root_growth(likely);
  const double library = 2 * kRootUnits * u_;
  error.factor.worst = root_growth(variance.worst + u_) + library;
  error.factor.square = variance.square * square(growth / likely);
  error.factor.common = (variance.common + u_) * growth / likely + library;
  if (!(growth < kUnbounded)) error.factor = {kUnbounded, kUnbounded, kUnbounded, 0};
  return error;
}

Carried combined(const RowError& error, double by_mean, double by_factor) {
  const Carried both = scaled(error.mean, by_mean) + scaled(error.factor, by_factor);
  const double reach = std::fabs(by_mean);
  const double cross = times(times(reach, error.mean.worst), error.factor.worst);
  const double likely_cross = times(times(reach, error.mean.likely()), error.factor.likely());
  return both + Carried{cross, 0, likely_cross, 0};
}

Carried NormBound::own_error(const NormRow& row, std::size_t k, double z) const {
  const double product = row.unit[k] * gamma_[k];
  const double roundings = is_layer_ ? 3 : 2;
  const double added = is_layer_ ? u_ * std::fabs(z) : 0;
  const double distance = std::fabs(row.unit[k]) / row.factor;
  const double below = eta_ * (2 + std::fabs(gamma_[k]) + distance);
  return {roundings * u_ * std::fabs(product) + added + below,
          roundings * square(u_ * product) + added * added, below, 0};
}

Carried NormBound::shared_error(const NormRow& row, const RowError& error, std::size_t k) const {
  return combined(error, row.factor * gamma_[k], row.unit[k] * gamma_[k]);
}

Carried NormBound::unit_error(const NormRow& row, const RowError& error, std::size_t k) const {
  const double unit = row.unit[k];
  const Carried own{2 * u_ * std::fabs(unit) + eta_, 2 * square(u_ * unit), eta_, 0};
  return own + combined(error, row.factor, unit);
}

// Of the means that the gradient is made of: their terms are rounded `each` time, and added; equal
// terms are added alike.
Carried NormBound::sum_error(const std::vector<double>& terms, double each, double equal,
                             double mean) const {
  const Sums sums(terms);
  const double at_once = each * u_ * u_ * sums.squares * equal;
  const Carried sum =
      sums.error(u_, equal, count_ - 1) + Carried{each * u_ * sums.absolute, at_once, 0, 0};
  return scaled(sum, 1 / count_) + linear(divisions_ * u_ * std::fabs(mean));
}

std::vector<Bound> NormBound::gradient(const NormRow& row, const RowError& error,
                                       const NormGradient& at) const {
  std::vector<double> products(at.w);
  double magnitude = 0;
  for (std::size_t k = 0; k < products.size(); ++k) {
    products[k] *= row.unit[k];
    magnitude += std::fabs(at.w[k]) / count_;
  }
  const double equal = std::max({most_equal(row.x), most_equal(at.w), most_equal(products)});
  const Carried product_error = sum_error(products, 4, equal, at.product);
  const Carried mean_error = is_layer_ ? sum_error(at.w, 1, equal, at.mean) : Carried{};
  std::vector<Bound> bounds(at.w.size());
  for (std::size_t k = 0; k < bounds.size(); ++k) {
    const double f = row.factor;
    const double unit = std::fabs(row.unit[k]);
    const double w = std::fabs(at.w[k]);
    const double terms = w + std::fabs(at.mean) + unit * std::fabs(at.product);
    const double squares = square(w) + square(at.mean) + square(unit * at.product);
    Carried own = scaled(product_error, f * unit) + scaled(mean_error, f);
    own.worst += u_ * (4 * f * terms + 3 * std::fabs(at.dx[k]));
    own.square += square(u_) * (16 * f * f * squares + 9 * square(at.dx[k]));
    bounds[k].add(shared_by_gradient(row, error, at, k));
    bounds[k].add(Family{own.worst, own.square, own.common});
    bounds[k].add(eta_ * (2 + f * (4 + 4 * unit + std::fabs(at.product) + unit * magnitude)));
  }
  return bounds;
}

// With a row and a w of positive elements, no sum of the gradient's parts is larger than theirs.
NormGradient NormBound::largest_gradient(const NormRow& row, std::vector<double> reach) const {
  NormGradient at{std::move(reach), {}, 0, 0};
  for (std::size_t k = 0; k < at.w.size(); ++k) {
    at.product += at.w[k] * row.unit[k] / count_;
    if (is_layer_) at.mean += at.w[k] / count_;
  }
  for (std::size_t k = 0; k < at.w.size(); ++k) {
    // shared_by_gradient takes twice the product's part from dx.
    at.dx.push_back(row.factor * (at.w[k] + at.mean + 5 * row.unit[k] * at.product));
  }
  return at;
}

std::vector<Family> NormBound::gradient_of_errors(const NormRow& row, const RowError& error,
                                                  std::span<const Carried> errors) const {
  NormRow positive = row;
  for (double& unit : positive.unit) unit = std::fabs(unit);
  std::vector<double> worst, likely;
  for (std::size_t k = 0; k < errors.size(); ++k) {
    worst.push_back(times(std::fabs(gamma_[k]), errors[k].worst));
    likely.push_back(times(std::fabs(gamma_[k]), errors[k].likely()));
  }
  const auto of = [&](std::vector<double> reach) {
    for (double each : reach) {
      if (!(each < kUnbounded)) return std::vector<Bound>(reach.size(), Bound::unbounded());
    }
    return gradient(positive, error, largest_gradient(positive, std::move(reach)));
  };
  const std::vector<Bound> at_worst = of(std::move(worst));
  const std::vector<Bound> at_likely = of(std::move(likely));
  std::vector<Family> result;
  for (std::size_t k = 0; k < errors.size(); ++k) {
    const double common = at_likely[k].linear + kLambda * std::sqrt(at_likely[k].square);
    result.push_back({at_worst[k].worst, 0, std::min(common, at_worst[k].worst)});
  }
  return result;
}

// The factor reaches dx by (w - mean) as it is and by unit * product three times over; the mean by
// unit and by the product.
Family NormBound::shared_by_gradient(const NormRow& row, const RowError& error,
                                     const NormGradient& at, std::size_t k) const {
  const double f = row.factor;
  const double of_product = f * row.unit[k] * at.product;
  const Carried shared =
      combined(error, f * f * (at.product + row.unit[k] * at.mean), at.dx[k] - 2 * of_product);
  const double cubed = 3 * std::fabs(of_product);
  const double moved = f * f * f * std::fabs(at.mean);
  const auto second_order = [&](double of_factor, double of_mean) {
    return times(cubed, square(of_factor) * (1 + of_factor)) + times(moved, square(of_mean));
  };
  return {shared.worst + second_order(error.factor.worst, error.mean.worst), shared.square,
          shared.common + second_order(error.factor.likely(), error.mean.likely())};
}

std::vector<Family> NormBound::of_upstream(const NormRow& row, const std::vector<double>& matrix,
                                           std::span<const Carried> errors) const {
  const std::size_t features = row.unit.size();
  const std::size_t sources = errors.size();
  std::vector<double> means(sources), products(sources);
  for (std::size_t k = 0; k < features; ++k) {
    for (std::size_t j = 0; j < sources; ++j) {
      const double w = gamma_[k] * matrix[k * sources + j] / count_;
      if (is_layer_) means[j] += w;
      products[j] += row.unit[k] * w;
    }
  }
  std::vector<Family> families(features);
  for (std::size_t k = 0; k < features; ++k) {
    Family& family = families[k];
    for (std::size_t j = 0; j < sources; ++j) {
      const double w = gamma_[k] * matrix[k * sources + j];
      const double by = std::fabs(row.factor * (w - means[j] - row.unit[k] * products[j]));
      family.worst += by * errors[j].worst;
      family.square += by * (by * errors[j].square);
      family.common += by * errors[j].common;
    }
    const Carried known = checked({family.worst, family.square, family.common, 0});
    family = {known.worst, known.square, known.common};
  }
  return families;
}

}  // namespace shardproof
