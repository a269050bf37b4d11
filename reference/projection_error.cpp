#include "reference/projection_error.h"

#include "harness/model/require.h"

namespace shardproof {
namespace {

// The companions of one product, element by element; empty where nothing contributes.
struct Companions {
  std::vector<double> worst;
  std::vector<double> square;
  std::vector<double> common;
  std::vector<double> product_squares;    // sum (a b)^2
  std::vector<double> operand_underflow;  // of operands that are rounded
};

// The accumulator's and the operands' constants in one product of `terms` terms.
struct Constants {
  template <class Real>
  Constants(const Factor<Real>& left, const Factor<Real>& right, const ProductRule& rule)
      : terms(static_cast<double>(left.columns)),
        accumulator(rule.units.accumulator),
        type(format(rule.precision.accumulator)),
        factor(accumulator.u * (accumulator.truncating ? 2 : 1)),
        per_sum(factor * std::max(terms - 1, 0.0) / 2),
        exact_products(left.bits + right.bits <= type.precision),
        per_term(per_sum + (exact_products ? 0 : factor)),
        operands(left.operand.u + right.operand.u),
        per_magnitude(per_term + operands),
        operand(std::max(left.operand.u, right.operand.u)),
        per_square(square(accumulator.u) * terms * kWalkEnergy + square(left.operand.u) +
                   square(right.operand.u)),
        grid(left.grid + right.grid),
        may_be_exact(left.errors.empty() && right.errors.empty() && operands == 0 &&
                     grid >= type.minimum_exponent - type.precision + 1) {}

  double terms;
  Accumulator accumulator;
  const Format& type;
  double factor;
  double per_sum;  // worst error per unit of |sum|
  bool exact_products;
  double per_term;  // worst error per unit of sum |a b|
  double operands;
  double per_magnitude;  // worst error, operands' roundings included, per unit of sum |a b|
  double operand;
  double per_square;
  int grid;
  bool may_be_exact;

  // sum |a b|, or more when a factor carries errors, which is the safe side. Where the worst case
  // is not known, by Cauchy-Schwarz.
  double absolute(const Companions& companions, std::size_t i, double sum) const {
    if (per_magnitude == 0) return sum;
    if (companions.worst[i] < kUnbounded) return companions.worst[i] / per_magnitude;
    return std::sqrt(terms * companions.square[i] / per_square);
  }

  bool is_exact(double magnitude) const {
    return may_be_exact && magnitude * (1 + 1e-6) <= std::ldexp(1.0, type.precision + grid);
  }
};

// What the elements of a factor contribute to the three companions of a product.
struct Weights {
  std::vector<double> worst;
  std::vector<double> square;
  std::vector<double> common;  // empty: exact
};

template <class Real>
Weights weights(const Factor<Real>& factor, const Constants& constants) {
  const std::size_t size = factor.values.size();
  Weights result{std::vector<double>(size), std::vector<double>(size), {}};
  for (std::size_t i = 0; i < size; ++i) {
    const auto value = static_cast<double>(factor.values[i]);
    result.worst[i] = constants.per_magnitude * std::fabs(value);
    result.square[i] = constants.per_square * value * value;
  }
  if (factor.errors.empty()) return result;
  result.common.resize(size);
  for (std::size_t i = 0; i < size; ++i) {
    const Carried& error = factor.errors[i];
    result.worst[i] += error.worst;
    result.square[i] += error.square + constants.terms * error.coherent;
    result.common[i] = error.common;
  }
  return result;
}

template <class Real>
std::vector<double> magnitudes(const Factor<Real>& factor) {
  std::vector<double> result(factor.values.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = std::fabs(static_cast<double>(factor.values[i]));
  }
  return result;
}

template <class Real>
std::vector<double> squares(const Factor<Real>& factor) {
  std::vector<double> result(factor.values.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = square(static_cast<double>(factor.values[i]));
  }
  return result;
}

template <class Real>
Companions companions_of(const Factor<Real>& left, const Factor<Real>& right,
                         const Constants& constants) {
  const bool carried_left = right.errors.empty();
  require(carried_left || left.errors.empty(), "one factor of a product is exact");
  const auto product_of = [&](const std::vector<double>& a, const std::vector<double>& b) {
    return plain_product(a, b, left.rows, left.columns, right.columns);
  };
  const auto companion = [&](const std::vector<double>& of_carried,
                             const std::vector<double>& of_exact) {
    return carried_left ? product_of(of_carried, of_exact) : product_of(of_exact, of_carried);
  };
  const Weights weight = weights(carried_left ? left : right, constants);
  const Factor<Real>& exact = carried_left ? right : left;
  const std::vector<double> magnitude = magnitudes(exact);
  Companions result;
  result.worst = companion(weight.worst, magnitude);
  result.square = companion(weight.square, squares(exact));
  if (!weight.common.empty()) result.common = companion(weight.common, magnitude);
  if (constants.operands > 0 || constants.accumulator.truncating) {
    result.product_squares = product_of(squares(left), squares(right));
  }
  if (constants.operands > 0) {
    const std::vector<double> eta_left(left.values.size(), left.operand.eta);
    const std::vector<double> eta_right(right.values.size(), right.operand.eta);
    result.operand_underflow = product_of(eta_left, magnitudes(right));
    const std::vector<double> other = product_of(magnitudes(left), eta_right);
    for (std::size_t i = 0; i < other.size(); ++i) result.operand_underflow[i] += other[i];
  }
  return result;
}

}  // namespace

template <class Real>
void add_errors(Product<Real>& product, const Factor<Real>& left, const Factor<Real>& right,
                const ProductRule& rule) {
  const Constants constants(left, right, rule);
  const Companions companions = companions_of(left, right, constants);
  const Accumulator& accumulator = constants.accumulator;
  const double shared = left.shared + right.shared + constants.operand;
  product.grid = constants.grid;
  product.errors.resize(product.values.size());
  for (std::size_t i = 0; i < product.values.size(); ++i) {
    const double sum = std::fabs(static_cast<double>(product.values[i]));
    const double absolute = constants.absolute(companions, i, sum);
    if (constants.is_exact(absolute)) continue;
    double below = constants.terms * accumulator.eta;
    if (constants.operands > 0) below += companions.operand_underflow[i];
    Carried& error = product.errors[i];
    error.worst = companions.worst[i] + constants.per_sum * sum + below;
    if (!(error.worst < kUnbounded)) error.worst = kUnbounded;  // not NaN
    error.square = companions.square[i] + square(accumulator.u * sum) * constants.terms / 3;
    error.common = (companions.common.empty() ? 0 : companions.common[i]) + below + shared * sum;
    if (accumulator.truncating) {
      error.common += 2 * accumulator.u * constants.terms *
                      std::sqrt(sum * sum / 3 + kWalkEnergy * companions.product_squares[i]);
    }
    if (constants.operands > 0) {
      error.coherent = square(constants.operand) * companions.product_squares[i];
    }
    if (!(absolute + error.reach() < constants.type.overflow_threshold)) {
      error = {kUnbounded, kUnbounded, kUnbounded, 0};
    }
  }
}

template <class Real>
Bound reduced_bound(const Product<Real>& product, std::size_t i, double multiplicity, bool has_bias,
                    Real value, const ProductRule& rule) {
  const Carried& error = product.errors[i];
  Bound bound;
  bound.add(Family{error.worst, error.square, error.common}, multiplicity);
  const auto sum = static_cast<double>(product.values[i]);
  if (product.parts > 1) {
    const double magnitude = product.part_magnitude[i];
    const Format& f = format(rule.precision.reduction);
    const bool exact = error.exact() && product.grid > f.minimum_exponent - f.precision &&
                       magnitude <= std::ldexp(1.0, f.precision + product.grid);
    if (!exact) {
      add_all_reduce(bound, rule.units.reduction, rule.units.reduction_narrower, product.parts,
                     magnitude, product.part_square[i], sum);
    }
    if (!(magnitude + error.reach() < f.overflow_threshold)) bound.add(kUnbounded);
  }
  const bool exact_sum = bound.worst == 0 && representable(rule.precision.elementwise, value);
  if (has_bias && !exact_sum) {
    const double likely = bound.linear + kLambda * std::sqrt(bound.square);
    const double reach = bound.worst < kUnbounded ? bound.worst : likely;
    bound.add(half_ulp(rule.precision.elementwise, std::fabs(static_cast<double>(value)) + reach));
  }
  return bound;
}

#define INSTANTIATE(Real)                                                             \
  template void add_errors(Product<Real>&, const Factor<Real>&, const Factor<Real>&,  \
                           const ProductRule&);                                       \
  template Bound reduced_bound(const Product<Real>&, std::size_t, double, bool, Real, \
                               const ProductRule&);
INSTANTIATE(double)
INSTANTIATE(long double)
#undef INSTANTIATE

}  // namespace shardproof
