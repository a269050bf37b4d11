// The two-layer perceptron: y = a w2 + b2 with z = x w1 + b1 and a = act(z), or, gated,
// a = act(z) * (x wg + bg) (SwiGLU, GeGLU, ReGLU: Shazeer 2020), and all gradients of sum(dy * y).
#pragma once

#include "harness/model/operator.h"
#include "reference/activation.h"
#include "reference/carried.h"

namespace shardproof {

const Operator& mlp_operator();

// One hidden unit of one token in a subject: errors of z, the gate's other branch `up` (its value 1
// and error 0 when not gated) and da, with their roundings to precision.middle included.
struct HiddenInputs {
  double z = 0;
  double up = 1;
  double da = 0;
  Carried z_error;
  Carried up_error;
  Carried da_error;
};

// The errors of what is computed from them, roundings included.
struct HiddenErrors {
  Carried a;
  Carried dz;
  Carried dup;  // unused when not gated
};
HiddenErrors hidden_errors(Activation activation, bool gated, const HiddenInputs& at,
                           const ProductRule& rule);

}  // namespace shardproof
