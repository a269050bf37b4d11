// The activations of an mlp and their derivatives.
#pragma once

#include "harness/devices/cuda/kernels/views.h"
#include "harness/model/problem.h"

namespace shardproof::kernels {

template <typename T>
struct Curve {
  T value = 0;
  T slope = 0;
};

// The error function within one unit in the last place, which erff of CUDA does not promise.
SHARDPROOF_KERNEL inline float exact_erf(float x) {
  return static_cast<float>(std::erf(static_cast<double>(x)));
}
SHARDPROOF_KERNEL inline double exact_erf(double x) { return std::erf(x); }

// x Phi(x), Phi the normal distribution (Hendrycks & Gimpel 2016, equation 1).
template <typename T>
SHARDPROOF_KERNEL Curve<T> gelu_curve(T x) {
  const T root_half = static_cast<T>(0.707106781186547524400844362104849);
  const T density = static_cast<T>(0.398942280401432677939946059934382);  // 1 / sqrt(2 pi)
  const T twice_share = T{1} + exact_erf(x * root_half);
  const T bell = density * std::exp(T{-0.5} * (x * x));
  return {T{0.5} * x * twice_share, T{0.5} * twice_share + x * bell};
}

// The same with Phi(x) = (1 + tanh(u)) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3).
template <typename T>
SHARDPROOF_KERNEL Curve<T> gelu_tanh_curve(T x) {
  const T root = static_cast<T>(0.797884560802865355879892119868764);
  const T cubic = static_cast<T>(0.044715);
  const T square = x * x;
  const T bend = std::tanh(root * x * (T{1} + cubic * square));
  const T flatness = T{1} - bend * bend;
  Curve<T> curve{T{0.5} * x * (T{1} + bend), T{0.5} * (T{1} + bend)};
  // du/dx may be infinite where tanh has long been flat.
  if (flatness != 0) {
    curve.slope += T{0.5} * x * flatness * root * (T{1} + T{3} * cubic * square);
  }
  return curve;
}

// x / (1 + e^-x) (Elfwing et al. 2018). Far to the left that is x e^x: e^(x/2) twice, as neither
// e^-x nor e^x need be a normal number.
template <typename T>
SHARDPROOF_KERNEL Curve<T> silu_curve(T x) {
  if (x < T{-60}) {
    const T half = std::exp(T{0.5} * x);
    return {(x * half) * half, ((T{1} + x) * half) * half};
  }
  const T share = T{1} / (T{1} + std::exp(-x));
  return {x * share, share + x * share * (T{1} - share)};
}

template <typename T>
SHARDPROOF_KERNEL Curve<T> curve_of(Activation activation, T x) {
  switch (activation) {
    case Activation::kGelu:
      return gelu_curve(x);
    case Activation::kGeluTanh:
      return gelu_tanh_curve(x);
    case Activation::kSilu:
      return silu_curve(x);
    case Activation::kRelu:
      break;
  }
  if (x <= 0) return {T{0}, T{0}};
  return {x, T{1}};  // NaN, too
}

// a = act(z) (* up), [rows, n]
template <typename T>
struct Activate {
  static constexpr bool kMeets = false;
  Activation activation = Activation::kRelu;
  Matrix z;
  Matrix up;
  Matrix a;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    for_elements(block, z.rows, z.columns, [&](Index i, Index j) {
      T value = curve_of(activation, z.get<T>(i, j)).value;
      if (up.data != nullptr) value *= up.get<T>(i, j);
      a.set(i, j, value);
    });
  }
};

// dz = da * act'(z) (* up), dup = da * act(z)
template <typename T>
struct ActivateBackward {
  static constexpr bool kMeets = false;
  Activation activation = Activation::kRelu;
  Matrix z;
  Matrix up;
  Matrix da;
  Matrix dz;
  Matrix dup;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    for_elements(block, z.rows, z.columns, [&](Index i, Index j) {
      const Curve<T> curve = curve_of(activation, z.get<T>(i, j));
      const T gradient = da.get<T>(i, j);
      if (up.data == nullptr) {
        dz.set(i, j, gradient * curve.slope);
        return;
      }
      const T factor = up.get<T>(i, j);
      dz.set(i, j, gradient * curve.slope * factor);
      dup.set(i, j, gradient * curve.value);
    });
  }
};

}  // namespace shardproof::kernels
