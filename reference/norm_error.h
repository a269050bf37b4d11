// Errors of matrices on their way through linear maps.
#pragma once

#include "reference/projection.h"

namespace shardproof {

inline constexpr int kInexactGrid = -(1 << 20);  // of a factor whose values a subject has not

inline Carried operator+(const Carried& a, const Carried& b) {
  return {a.worst + b.worst, a.square + b.square, a.common + b.common, a.coherent + b.coherent};
}

// The same with infinity for what is not a number.
inline Carried checked(const Carried& error) {
  const bool vague = !(error.square < kUnbounded && error.common < kUnbounded);
  if (vague) return {kUnbounded, kUnbounded, kUnbounded, 0};
  return {error.worst < kUnbounded ? error.worst : kUnbounded, error.square, error.common,
          error.coherent};
}

template <class Real>
std::vector<double> narrowed(const std::vector<Real>& values) {
  return {values.begin(), values.end()};
}

// left [rows, n] * right [n, columns], without errors.
std::vector<double> plain_product_of(const std::vector<double>& left, Index rows,
                                     const std::vector<double>& right, Index columns);

// The errors of a matrix of `inner` columns in its product with an exact one [inner, columns].
std::vector<Carried> through(const std::vector<Carried>& errors, const std::vector<double>& right,
                             Index inner, Index columns);

}  // namespace shardproof
