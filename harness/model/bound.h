// Bound: what a contract permits, per element. Elementary roundings are gathered in families; a
// family is known by its worst case, by the sum of squares of its terms and by the part that all
// terms may share. This is the only place with tolerance constants.
//
// Everything below is scalar, inline and free of branches on data, so that loops over arrays of
// elements vectorise; nothing allocates but multiplicity().
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "harness/model/contract.h"
#include "harness/model/dtype.h"
#include "harness/model/shape.h"

namespace shardproof {

// T2 = linear + kLambda * sqrt(square). Azuma-Hoeffding: a martingale with steps bounded by c_k
// exceeds lambda * sqrt(sum c_k^2) with probability below 2 exp(-lambda^2 / 2), 3e-8 for 6 whatever
// the distribution; for roundings uniform in [-c, c] it is 2 exp(-3 lambda^2 / 2) = 7e-24.
inline constexpr double kLambda = 6;

// The energy sum_k s_k^2 of the partial sums of n terms in random order has the mean
// n (S^2/3 + SQ/6) and the heavy upper tail of the Cramer-von Mises statistic. With the mean 1/6
// plain sequential sums come within a factor 1.3 of kLambda; 1/2 is the 96 % quantile of that tail.
inline constexpr double kWalkEnergy = 0.5;

// Below this the squares of errors underflow in double (the smallest double is 5e-324), so that
// only the worst case says anything. Whatever the squares lost is smaller than this.
inline constexpr double kSquaresVanish = 1e-140;

// Errors of an exponent are capped here: exp(60) = 1e26 is already no information.
inline constexpr double kExponentCap = 60;

// The bounds are first order in u; products of two errors add less than 8 u relative (each element
// passes through fewer than eight stages whose relative errors multiply).
inline constexpr double kSecondOrder = 8;

inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

inline double square(double x) { return x * x; }

// What one rounding to a type may do: relative error u, absolute error eta below minimum_normal.
// All zero: no rounding.
struct Rounding {
  double u = 0;
  double eta = 0;
  double minimum_normal = 0;

  bool exists() const { return u > 0; }

  // The largest error of rounding a value of this magnitude: u times the power of two below it.
  double half_unit(double magnitude) const {
    const auto bits = std::bit_cast<std::uint64_t>(magnitude) & 0x7ff0000000000000ull;
    return std::max(std::bit_cast<double>(bits) * u, eta);
  }

  // The absolute error that underflow adds to a value of this magnitude that carries `error`: a
  // flushed value loses at most itself. Zero in the normal range, where u covers it.
  double underflow(double magnitude, double error = 0) const {
    return magnitude < minimum_normal ? std::min(eta, magnitude + error) : 0.0;
  }
};

Rounding rounding_to(DType type);

// The rounding that happens when a `from` is stored as a `to`; nothing when `to` is not narrower.
Rounding narrowing(DType from, DType to);

// An error family of one element: elementary errors |e_k| <= c_k with sensitivities s_k.
struct Family {
  double worst = 0;   // sum |s_k| c_k
  double square = 0;  // sum (s_k c_k)^2
  double common = 0;  // |sum s_k c_k|, the part shared when all relative errors are equal, and
                      // everything one-sided (truncation, underflow)
};

// The families of one element added up, before the final rounding.
struct Bound {
  double worst = 0;     // of all families
  double linear = 0;    // of those that count linearly in T2
  double square = 0;    // of those that count quadratically in T2
  double variance = 0;  // model variance of the error
  // Sums over all families, for products that read this element: see as_family.
  double energy = 0;
  double common = 0;

  // Few or very unequal terms: the worst case is the tighter one and counts linearly. Equal rows of
  // the operands round equally; `multiplicity` of them add coherently: (mu c)^2 = mu * (mu c^2).
  void add(const Family& family, double multiplicity = 1) {
    const double positive = std::max(family.square, 0.0);
    const double weighted = multiplicity * positive;
    const double excess = std::max(family.worst - family.common, 0.0);
    const bool as_worst = excess * excess <= kLambda * kLambda * weighted;
    worst += family.worst;
    linear += as_worst ? family.worst : family.common;
    square += as_worst ? 0.0 : weighted;
    variance += positive / 3;  // of a rounding uniform in [-c, c]
    energy += weighted;
    common += family.common;
  }

  // A family without a quadratic form.
  void add(double family_worst) {
    worst += family_worst;
    linear += family_worst;
    variance += family_worst * family_worst / 3;
    common += family_worst;
  }

  // Of an element for which anything is accepted.
  static Bound unbounded() { return {kUnbounded, kUnbounded, 0, kUnbounded, 0, kUnbounded}; }

  // All families of another bound, independent of these.
  void merge(const Bound& other) {
    worst += other.worst;
    linear += other.linear;
    square += other.square;
    variance += other.variance;
    energy += other.energy;
    common += other.common;
  }

  // All families as one, before the choice between worst case and squares: what a product that
  // reads this element multiplies by its other operand.
  Family as_family() const { return {worst, energy, common}; }

  // T1 and T2 before the final rounding. `inflation` is Units::inflation.
  double worst_case(double inflation) const { return worst * inflation; }
  double likely_case(double inflation) const {
    const double most = worst_case(inflation);
    return std::min(most, std::max(linear + kLambda * std::sqrt(square), kSquaresVanish));
  }

  // The bound of factor * (the element), exactly.
  Bound scaled(double factor) const {
    const double f = std::fabs(factor);
    return {f * worst, f * linear, f * f * square, f * f * variance, f * f * energy, f * common};
  }
};

// The type of every sum of a matrix product.
struct Accumulator {
  double u = 0;
  double eta = 0;  // doubled when truncating: a truncated subnormal loses a full unit
  bool truncating = false;
};

// The rounding errors of a sum of `terms` products in any order and by any tree. `sum`: its exact
// value, `squares`: the sum of the products' squares, `absolute`: the sum of their magnitudes (or
// infinity when not computed: then only the quadratic form counts). Every partial sum is the sum of
// a subset, hence at most (absolute + |sum|) / 2. Additions are exact among subnormals, products
// are not: eta per term, times `unit`, the factor that the sum is multiplied by afterwards and that
// the other three arguments already contain.
inline Family accumulation(const Accumulator& type, double terms, double sum, double squares,
                           double absolute, double unit = 1) {
  const double energy = sum * sum / 3 + kWalkEnergy * squares;
  const double underflow = terms * type.eta * unit;
  const double one_sided = type.truncating ? 2 * type.u * terms * std::sqrt(energy) : 0.0;
  const double factor = type.truncating ? 2 * type.u : type.u;
  const double subset = (absolute + std::fabs(sum)) / 2;
  return {factor * (std::max(terms - 1, 0.0) * subset + absolute) + underflow,
          type.u * type.u * terms * energy, underflow + one_sided};
}

// A rounding of every term of a sum: `magnitude` = sum |t_k|, `squares` = sum t_k^2.
inline Family rounding_of_terms(const Rounding& type, double magnitude, double squares,
                                double sum) {
  if (!type.exists()) return {};
  return {type.u * magnitude, type.u * type.u * squares, type.u * std::fabs(sum)};
}

// `parts` addends are one after another added to a buffer of `type` (ring: gradients that travel).
// `magnitude` = sum |part|, `squares` = sum part^2, `sum` = their sum. `type` must be a narrowing.
inline void add_running_sum(Bound& bound, const Rounding& type, double parts, double magnitude,
                            double squares, double sum) {
  bound.add(parts * type.eta);
  bound.add(Family{type.u * parts * (magnitude + std::fabs(sum)) / 2,
                   type.u * type.u * parts * (sum * sum / 3 + kWalkEnergy * squares),
                   type.u * std::fabs(sum)});
}

// An all-reduce or reduce-scatter adds `parts` partial sums in `type`, in any order; `narrower`:
// each part is first rounded to it. Arguments as for add_running_sum. Nothing for one part.
inline void add_all_reduce(Bound& bound, const Rounding& type, bool narrower, double parts,
                           double magnitude, double squares, double sum) {
  if (parts <= 1) return;
  bound.add(2 * parts * type.eta);
  if (narrower) bound.add(rounding_of_terms(type, magnitude, squares, sum));
  bound.add(Family{(parts - 1) * type.u * (magnitude + std::fabs(sum)) / 2,
                   type.u * type.u * (parts - 1) * (sum * sum / 3 + kWalkEnergy * squares), 0.0});
}

// An upper bound of exp(x) - 1 for x >= 0, cheap where x is small: x + x^2/2 + ... <= x (1 + x).
inline double relative_growth(double x) {
  if (x < 0x1p-10) return x * (1 + x);
  return std::expm1(std::min(x, kExponentCap));
}

// The square, per unit of lambda^2, of what an exponent error of variance proxy `square` does to
// exp: keeps T2 valid for large errors, without linearising.
inline double relative_growth_square(double exponent_square) {
  return square(relative_growth(kLambda * std::sqrt(exponent_square)) / kLambda);
}

// The roundings of a Precision, looked up once.
struct Units {
  explicit Units(const Precision& precision);

  Accumulator accumulator;
  Rounding elementwise;             // always rounds
  Rounding lse;                     // always rounds
  Rounding reduction;               // always rounds
  bool reduction_narrower = false;  // than the accumulator
  // Nothing when not narrower than what is stored in them.
  Rounding operand;  // of inputs of products
  Rounding score;
  Rounding probability;          // the storage of P
  Rounding probability_operand;  // the further rounding of P on entering a product
  Rounding score_gradient;
  Rounding score_gradient_operand;
  Rounding saved_out;
  Rounding block_out;
  Rounding query_gradient;
  Rounding kv_gradient;
  Rounding middle;
  Rounding middle_operand;  // the further rounding of middle tensors on entering a product

  double exp_error = 0;  // relative errors of the library functions
  double log_error = 0;
  double tanh_error = 0;
  double erf_error = 0;
  double inflation = 1;  // 1 + 8 times the largest u of the contract
};

struct Thresholds {
  double worst = 0;   // T1
  double likely = 0;  // T2
  double sigma = 0;
};

// How an output leaves: rounded to its type when that is narrower than the accumulator.
struct OutputType {
  OutputType(DType type, const Precision& precision);

  Rounding rounding;
  double overflow_threshold = 0;
  double inflation = 1;
};

// The thresholds of an element whose exact value is `want`. The final rounding counts linearly,
// never times lambda. Where the result may overflow, or where the bound itself has overflowed, any
// result is accepted: both thresholds are infinite.
inline Thresholds finish(const Bound& bound, double want, const OutputType& type) {
  const double magnitude = std::fabs(want);
  const double worst = bound.worst_case(type.inflation);
  const double likely = bound.likely_case(type.inflation);
  const double final_half = type.rounding.half_unit(magnitude);
  const double worst_total = worst + type.rounding.half_unit(magnitude + worst);
  const double likely_total = likely + type.rounding.half_unit(magnitude + likely);
  const double reach = magnitude + (worst_total < kUnbounded ? worst_total : likely_total);
  const bool representable = reach < type.overflow_threshold;
  const double variance = std::min(bound.variance, worst * worst) + final_half * final_half / 3;
  return {representable ? worst_total : kUnbounded, representable ? likely_total : kUnbounded,
          std::sqrt(variance)};
}

// The largest number of bit-identical non-zero rows (columns) of a row-major [rows, columns]
// matrix; 1 when there are none.
double row_multiplicity(const double* matrix, Index rows, Index columns);
double column_multiplicity(const double* matrix, Index rows, Index columns);

}  // namespace shardproof
