// Noise: the mean error of many ranks against that of one (numerics, T4).
#pragma once

#include "harness/check/property.h"

namespace shardproof {

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
