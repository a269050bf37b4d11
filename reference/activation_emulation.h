// For tests: activations and their derivatives as a subject may compute them, in its own
// arithmetic.
#pragma once

#include <algorithm>
#include <cmath>

#include "harness/model/problem.h"

namespace shardproof {

template <class F>
F inner_of_gelu_tanh(F z) {
  return F(0.79788456080286536) * (z + F(0.044715) * z * z * z);
}

template <class F>
F activated(Activation activation, F z) {
  switch (activation) {
    case Activation::kRelu:
      return std::max(z, F{0});
    case Activation::kGelu:
      return z * (F(0.5) * (1 + std::erf(z * F(0.70710678118654752))));
    case Activation::kGeluTanh:
      return F(0.5) * z * (1 + std::tanh(inner_of_gelu_tanh(z)));
    case Activation::kSilu:
      return z / (1 + std::exp(-z));
  }
  return 0;
}

template <class F>
F activation_slope(Activation activation, F z) {
  switch (activation) {
    case Activation::kRelu:
      return z > 0 ? 1 : 0;
    case Activation::kGelu:
      return F(0.5) * (1 + std::erf(z * F(0.70710678118654752))) +
             z * F(0.39894228040143268) * std::exp(F(-0.5) * z * z);
    case Activation::kGeluTanh: {
      const F t = std::tanh(inner_of_gelu_tanh(z));
      return F(0.5) * (1 + t) +
             F(0.5) * z * (1 - t * t) * F(0.79788456080286536) * (1 + F(3 * 0.044715) * z * z);
    }
    case Activation::kSilu: {
      const F s = 1 / (1 + std::exp(-z));
      return s * (1 + z * (1 - s));
    }
  }
  return 0;
}

}  // namespace shardproof
