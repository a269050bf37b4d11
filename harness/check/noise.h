// Noise: the mean error of many ranks against that of one (numerics, T4).
#pragma once

#include "harness/check/property.h"

namespace shardproof {

inline constexpr double kDeviations = 6;  // of a sum of squares, until it is evidence

// How unsure the sum of squared errors, each relative to the model's, is as a measure: its standard
// deviation, relative, as the differences among rows and among columns show it. Elements of a row
// that share a rounding are one error and not many.
double relative_deviation(const Gathered& got, const ExpectedTensor& want);

struct Noise {
  double ratio = 1;    // of the sums of squared errors, each relative to the model's
  double allowed = 1;  // the largest ratio that is no evidence

  bool exceeds() const { return !(ratio <= allowed); }
};

// `many` and `one`: two runs of one tensor, whose right values and model errors `want` has. The
// ratio may be 1.1 times e to six of its logarithm's standard deviations. These are estimated from
// how unequal rows and columns are: elements share roundings along them, and a few may dominate.
Noise compare_noise(const Gathered& many, const Gathered& one, const ExpectedTensor& want);

}  // namespace shardproof
