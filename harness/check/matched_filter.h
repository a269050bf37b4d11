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
// 1 / power if errors are independent, of twice that in honest runs (measured), and of up to
// sqrt(width) / power where all elements of a row share the rounding of one weight P. For rows of
// 13 kLeastShare is then 2.8 standard deviations away, and a verdict needs that for other data
// again: 2e-8 for three runs.
inline constexpr double kLeastPower = 20;

inline bool fits(const Fit& fit) {
  return fit.power >= kLeastPower && fit.share >= kLeastShare && fit.share <= kLargestShare;
}

// The fit of a completed run to a hypothesis that concerns its problem.
Fit fit(const Run& run, const Hypothesis& hypothesis);

}  // namespace shardproof
