// Carried: the error of one element of a tensor that a subject holds, and how roundings and
// element-wise products add to it. An error of 0 means exact: the subject has this very value.
#pragma once

#include <vector>

#include "harness/model/bound.h"
#include "harness/model/operator.h"

namespace shardproof {

// A Family plus the part of its square that all elements of a row, or of a column, share (rounded
// operands).
struct Carried {
  double worst = 0;
  double square = 0;
  double common = 0;
  double coherent = 0;

  double likely() const { return std::min(worst, common + kLambda * std::sqrt(square)); }
  // The worst case, or the likely one where the worst was not computed and is infinite.
  double reach() const { return worst < kUnbounded ? worst : likely(); }
  bool exact() const { return worst == 0; }
};

// What all products of one evaluation need to know.
struct ProductRule {
  explicit ProductRule(const Precision& contract, bool want_errors);

  Precision precision;
  Units units;
  bool with_errors;
};

// The exponent of the lowest set bit of a value; kNoGrid for 0. Sums of multiples of 2^grid whose
// magnitudes add up to at most 2^(precision + grid) are exact in any order.
inline constexpr int kNoGrid = 1 << 20;
int lowest_bit(double value);

// Whether `value` is a number of `type`.
template <class Real>
bool representable(DType type, Real value);

// One rounding to `type` of an element whose exact value is `value`.
template <class Real>
void add_rounding(Carried& error, DType type, Real value);

// The same for storage in precision.middle; infinite where the stored value may overflow.
template <class Real>
void add_middle_rounding(Carried& error, const ProductRule& rule, Real value);

// The error of p * q, before the product is rounded.
Carried product_error(double p, const Carried& p_error, double q, const Carried& q_error);

// An output tensor of type precision.io. `bounds` is empty for Effort::kValues. `generic`: the data
// are independent, zero-mean and unstructured, so that the RMS test may apply.
template <class Real>
ExpectedTensor output_tensor(const TensorSpec& spec, const std::vector<Real>& values,
                             const std::vector<Bound>& bounds, Effort effort, bool generic,
                             const ProductRule& rule);

// Whether a problem's data meet the RMS test's preconditions.
bool is_generic(const Problem& problem);

}  // namespace shardproof
