// Projections of the reference: matrix products of factors that may carry rounding errors, and what
// a subject's contract permits for each element of the result. At most one factor of a product
// carries errors. Sums that are exact in the contract's types in any order get the error 0.
#pragma once

#include <vector>

#include "reference/carried.h"

namespace shardproof {

inline std::size_t size_of(Index rows, Index columns) {
  return static_cast<std::size_t>(rows * columns);
}

// A matrix [rows, columns], row-major.
template <class Real>
struct Factor {
  Index rows = 0;
  Index columns = 0;
  std::vector<Real> values;
  std::vector<Carried> errors;  // empty: exact
  Rounding operand;             // of an element on entering a product (tf32)
  double shared = 0;            // relative rounding bias that all elements may share
  int bits = 53;                // significand bits of an element
  int grid = 0;                 // exact factors: every value is a multiple of 2^grid

  std::size_t at(Index row, Index column) const {
    return static_cast<std::size_t>(row * columns + column);
  }
};

// An input: exact, rounded on entering a product only where that changes a value.
template <class Real>
Factor<Real> exact_factor(const std::vector<double>& values, Index rows, Index columns,
                          const ProductRule& rule);

// A tensor of type precision.middle; `errors` is empty without bounds. All errors 0: exact.
template <class Real>
Factor<Real> middle_factor(std::vector<Real> values, std::vector<Carried> errors, Index rows,
                           Index columns, double shared, const ProductRule& rule);

// [1, count] of ones: a product with it sums columns.
template <class Real>
Factor<Real> ones(Index count);

template <class Real>
Factor<Real> transposed(const Factor<Real>& factor);

// [left, right]
template <class Real>
Factor<Real> beside(const Factor<Real>& left, const Factor<Real>& right);

// The largest number of identical non-zero rows (columns); see Bound::add.
template <class Real>
double equal_rows(const Factor<Real>& factor);
template <class Real>
double equal_columns(const Factor<Real>& factor);

// left [rows, k] * right [k, columns]. Everything but `values` is empty without bounds.
template <class Real>
struct Product {
  Index rows = 0;
  Index columns = 0;
  std::vector<Real> values;
  std::vector<Carried> errors;         // of the sum in the accumulator; 0 where it is exact
  std::vector<double> part_magnitude;  // sum over the parts of |partial sum|; empty with one part
  std::vector<double> part_square;
  double parts = 1;
  int grid = 0;  // where the error is 0, all partial sums are multiples of 2^grid
};

// `parts` cuts the contracted dimension; empty: one part.
template <class Real>
Product<Real> multiply(const Factor<Real>& left, const Factor<Real>& right, const ProductRule& rule,
                       const Partition& parts = {});

// The bound of element `i` of a product whose partial sums are all-reduced and to which, where
// `has_bias`, a bias is then added; `value` is the result. `multiplicity` as in Bound::add.
template <class Real>
Bound reduced_bound(const Product<Real>& product, std::size_t i, double multiplicity, bool has_bias,
                    Real value, const ProductRule& rule);

}  // namespace shardproof
