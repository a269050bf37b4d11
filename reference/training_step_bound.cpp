// How the errors of the norm and of clipped gradients follow from those of the gradients.
#include <cmath>

#include "reference/training_step.h"

namespace shardproof {
namespace {

constexpr Uncertain kUnknown{0, kUnbounded, kUnbounded};

// The relative error of a sum of squares: one rounding for each square, the accumulation, and the
// all-reduce of `parts` partial sums. `shares`: the squares divided by their sum.
Bound sum_error(const std::vector<double>& shares, Index parts, const ProductRule& rule) {
  double squares = 0;
  for (double share : shares) squares += share * share;
  const auto terms = static_cast<Index>(shares.size());
  Bound bound;
  bound.add(accumulation(rule.units.accumulator, static_cast<double>(terms), 1, squares, 1, 0),
            row_multiplicity(shares.data(), terms, 1));
  if (parts > 1) {
    const auto roundings = static_cast<double>(parts - 1 + rule.units.reduction_narrower);
    bound.add(roundings * rule.units.reduction.u);
  }
  return bound;
}

// The squares' roundings below the normal range, absolutely.
double sum_underflow(double terms, Index parts, const ProductRule& rule) {
  const double reduction = parts > 1 ? 2 * static_cast<double>(parts) : 0;
  return terms * rule.units.accumulator.eta + reduction * rule.units.reduction.eta;
}

// The error of sqrt(sum (g + e)^2 (1 + sum_error) + underflow), rounded: by the triangle inequality
// the root of the squares moves by no more than the length `moved` of e, also where the norm is 0;
// sqrt(1 - x) >= 1 - x (1 + x) / 2; and sqrt(s - d) >= sqrt(s) - min(sqrt(d), d / sqrt(s)).
double root_error(double norm, double moved, double sum_error, double underflow, double u) {
  const double most = norm + moved;
  const double least = norm - moved;
  double below = std::sqrt(underflow);
  if (least > 0) below = std::min(below, 2 * underflow / least);
  return moved + most * (sum_error * (1 + sum_error) / 2 + u * (1 + sum_error)) + below;
}

}  // namespace

template <class Real>
Real norm_of(const std::vector<Gradient<Real>>& gradients) {
  Real sum = 0;
  for (const Gradient<Real>& gradient : gradients) {
    for (Real value : gradient.values) sum += value * value;
  }
  return std::sqrt(sum);
}

template <class Real>
Uncertain norm_error(const std::vector<Gradient<Real>>& gradients, Real norm, Index parts,
                     const ProductRule& rule) {
  std::vector<double> shares;
  long double worst = 0;  // squares of errors underflow in double
  long double likely = 0;
  for (const Gradient<Real>& gradient : gradients) {
    for (Real value : gradient.values) {
      shares.push_back(norm > 0 ? square(static_cast<double>(value / norm)) : 0);
    }
    for (const Bound& bound : gradient.bounds) {
      const long double most = bound.worst_case(rule.units.inflation);
      const long double usual = bound.likely_case(rule.units.inflation);
      worst += most * most;
      likely += usual * usual;
    }
  }
  const auto exact = static_cast<double>(norm);
  const auto moved = static_cast<double>(std::sqrt(worst));
  if (exact == 0 && moved == 0) return {};
  const Bound relative = sum_error(shares, parts, rule);
  const Precision& precision = rule.precision;
  const double limit =
      std::min(format(precision.accumulator).overflow_threshold,
               parts > 1 ? format(precision.reduction).overflow_threshold : kUnbounded);
  const bool fits = square(exact + moved) * (1 + relative.worst) < limit;
  if (!fits || !(relative.worst < 0.5)) return kUnknown;
  const double underflow = sum_underflow(static_cast<double>(shares.size()), parts, rule);
  const double u = rule.units.elementwise.u;
  return {exact, root_error(exact, moved, relative.worst, underflow, u),
          root_error(exact, static_cast<double>(std::sqrt(likely)), relative.likely_case(1),
                     underflow, u)};
}

// With a = max(norm, m), the quotient m / a moves by at most (m / a) e / (a - e), where a - e is
// not below m, and is rounded. A norm that stays at or below m gives m / m.
Uncertain clip_factor(const Uncertain& norm, double max_norm, const ProductRule& rule) {
  if (!(norm.worst < kUnbounded)) return kUnknown;
  const Rounding& rounding = rule.units.elementwise;
  const double factor = max_norm / std::max(norm.value, max_norm);
  const auto error = [&](double moved) {
    if (norm.value + moved <= max_norm) return 0.0;
    const double least = std::max(norm.value - moved, max_norm);
    return factor * moved / least + rounding.u * max_norm / least + rounding.eta;
  };
  const double inflation = rule.units.inflation;
  return {factor, error(norm.worst * inflation), error(norm.likely * inflation)};
}

Bound clipped_bound(double gradient, const Bound& bound, const Uncertain& factor,
                    const ProductRule& rule) {
  const bool unclipped = factor.value == 1 && factor.worst == 0;
  if (unclipped || (gradient == 0 && bound.worst == 0)) return bound;
  if (!(factor.worst < kUnbounded && bound.worst < kUnbounded)) return Bound::unbounded();
  const Rounding& rounding = rule.units.elementwise;
  const auto error = [&](double gradient_error, double factor_error) {
    const double reach = std::fabs(gradient) + gradient_error;
    return reach * (factor_error + rounding.u * (factor.value + factor_error)) + rounding.eta;
  };
  Bound result = bound.scaled(factor.value);
  result.merge(linear_bound(
      {0, error(bound.worst, factor.worst), error(bound.likely_case(1), factor.likely)}));
  return result;
}

Bound linear_bound(const Uncertain& value) {
  if (!(value.worst < kUnbounded)) return Bound::unbounded();
  Bound bound;
  bound.add(value.likely);
  bound.worst = value.worst;
  return bound;
}

#define INSTANTIATE(Real)                                                        \
  template Real norm_of(const std::vector<Gradient<Real>>&);                     \
  template Uncertain norm_error(const std::vector<Gradient<Real>>&, Real, Index, \
                                const ProductRule&);
INSTANTIATE(double)
INSTANTIATE(long double)
#undef INSTANTIATE

}  // namespace shardproof
