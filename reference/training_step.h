// One training step of a two-layer network: y = act(x w1) w2 + b2, the gradients of sum(dy * y),
// the norm of those of the parameters (each counted once), which are then clipped to a largest norm
// (Pascanu et al. 2013): g * min(1, max_norm / norm). Tied: w2 = w1^T is one weight that is used
// twice, and its gradient is the sum of both uses.
#pragma once

#include <vector>

#include "harness/model/operator.h"
#include "reference/carried.h"

namespace shardproof {

const Operator& training_step_operator();

// One parameter's gradient before clipping.
template <class Real>
struct Gradient {
  std::vector<Real> values;
  std::vector<Bound> bounds;  // empty without bounds
};

// A number that is known to lie within an error of its exact value, at worst and likely.
struct Uncertain {
  double value = 0;
  double worst = 0;
  double likely = 0;
};

// The norm sqrt(sum of g^2) that a subject computes from its gradients. It squares and adds in the
// accumulator's type, in any order; `parts` partial sums are all-reduced in the reduction's type;
// the root is one rounding.
template <class Real>
Real norm_of(const std::vector<Gradient<Real>>& gradients);
template <class Real>
Uncertain norm_error(const std::vector<Gradient<Real>>& gradients, Real norm, Index parts,
                     const ProductRule& rule);

// The factor max_norm / max(norm, max_norm), which is exactly 1 up to max_norm.
Uncertain clip_factor(const Uncertain& norm, double max_norm, const ProductRule& rule);

// The bound of `gradient` times the factor.
Bound clipped_bound(double gradient, const Bound& bound, const Uncertain& factor,
                    const ProductRule& rule);

// A bound that counts linearly.
Bound linear_bound(const Uncertain& value);

}  // namespace shardproof
