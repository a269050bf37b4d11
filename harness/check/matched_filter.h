// The matched filter: how much of a known fault is in a run's error. The error is regressed on what
// the fault would change; errors of roundings are spread over all directions and average out, so
// that a fault far below each of them shows in the sum over all elements.
#pragma once

#include "harness/check/property.h"

namespace shardproof {

struct Fit {
  double share = 0;  // of the fault in the error: about 1 when it was made, about 0 when not
  double power = 0;  // the size of what the fault changes in standard deviations of the error
};

// The least share and the largest one that mean that the fault was made.
inline constexpr double kLeastShare = 0.5;
inline constexpr double kLargestShare = 1.5;

// Below this a fit says nothing. The share of a run without the fault has a standard deviation of
// 1 / power if errors are independent, and of a few times that where many elements share a rounding
// (a gradient of weights sums few tokens over and over). At three times it, kLeastShare is 2.7
// standard deviations away; a verdict needs that in two runs of other data.
inline constexpr double kLeastPower = 16;

inline bool fits(const Fit& fit) {
  return fit.power >= kLeastPower && fit.share >= kLeastShare && fit.share <= kLargestShare;
}

// The fit of a completed run to a hypothesis that concerns its problem.
Fit fit(const Run& run, const Hypothesis& hypothesis);

}  // namespace shardproof
