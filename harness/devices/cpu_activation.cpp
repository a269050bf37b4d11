#include <cmath>

#include "harness/devices/cpu.h"

namespace shardproof {
namespace {

using cpu::Rows;

template <typename T>
struct ValueAndSlope {
  T value;
  T slope;
};

template <typename T>
ValueAndSlope<T> relu(T z) {
  return z <= 0 ? ValueAndSlope<T>{0, 0} : ValueAndSlope<T>{z, 1};  // NaN stays NaN
}

// z Phi(z), with Phi by the error function (Hendrycks & Gimpel 2016).
template <typename T>
ValueAndSlope<T> gelu(T z) {
  const T kHalfRoot = static_cast<T>(0.70710678118654752440);       // 1 / sqrt(2)
  const T kDensityAtZero = static_cast<T>(0.39894228040143267794);  // 1 / sqrt(2 pi)
  const T twice = 1 + std::erf(z * kHalfRoot);
  return {z / 2 * twice, twice / 2 + z * kDensityAtZero * std::exp(-z * z / 2)};
}

// The tanh approximation of the same paper.
template <typename T>
ValueAndSlope<T> gelu_tanh(T z) {
  const T kRoot = static_cast<T>(0.79788456080286535588);  // sqrt(2 / pi)
  const T kCubic = static_cast<T>(0.044715);
  const T bent = std::tanh(kRoot * z * (1 + kCubic * z * z));
  const T bent_slope = 1 - bent * bent;
  // Where tanh is flat its argument may have overflowed.
  const T tail = bent_slope == 0 ? T{0} : z / 2 * bent_slope * kRoot * (1 + 3 * kCubic * z * z);
  return {z / 2 * (1 + bent), (1 + bent) / 2 + tail};
}

// z sigmoid(z) (Elfwing et al. 2018).
template <typename T>
ValueAndSlope<T> silu(T z) {
  if (z < -64) {
    // sigmoid(z) is exp(z) here. Its square root is normal where it is not, so that nothing
    // underflows or overflows on the way to a result that does not.
    const T root = std::exp(z / 2);
    return {z * root * root, (1 + z) * root * root};
  }
  const T sigmoid = 1 / (1 + std::exp(-z));
  return {z * sigmoid, sigmoid + z * sigmoid * (1 - sigmoid)};
}

// Calls compute(the function of `activation`), so that loops over elements are not over names.
template <typename T, typename Compute>
void with_activation(Activation activation, Compute&& compute) {
  switch (activation) {
    case Activation::kRelu:
      return compute([](T z) { return relu(z); });
    case Activation::kGelu:
      return compute([](T z) { return gelu(z); });
    case Activation::kGeluTanh:
      return compute([](T z) { return gelu_tanh(z); });
    case Activation::kSilu:
      return compute([](T z) { return silu(z); });
  }
}

}  // namespace

void CpuDevice::activate(Activation activation, const View& z, const View& up, const View& a) {
  cpu::in_precision(z.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool gated = up.data != nullptr;
    const Rows<T> inputs(z, scratch_, 0);
    const Rows<T> ups(gated ? up : z, scratch_, 1);
    const Rows<T> outputs(a, scratch_, 2);
    with_activation<T>(activation, [&](auto act) {
      for (Index i = 0; i < z.shape[0]; ++i) {
        const T* input = inputs.read(i);
        T* output = outputs.open(i);
        for (Index j = 0; j < inputs.count(); ++j) output[j] = act(input[j]).value;
        if (gated) {
          const T* factor = ups.read(i);
          for (Index j = 0; j < inputs.count(); ++j) output[j] *= factor[j];
        }
        outputs.write(i);
      }
    });
  });
}

void CpuDevice::activate_backward(Activation activation, const View& z, const View& up,
                                  const View& da, const View& dz, const View& dup) {
  cpu::in_precision(z.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool gated = up.data != nullptr;
    const Rows<T> inputs(z, scratch_, 0);
    const Rows<T> ups(gated ? up : z, scratch_, 1);
    const Rows<T> upstream(da, scratch_, 2);
    const Rows<T> input_gradients(dz, scratch_, 3);
    const Rows<T> up_gradients(gated ? dup : dz, scratch_, 4);
    with_activation<T>(activation, [&](auto act) {
      for (Index i = 0; i < z.shape[0]; ++i) {
        const T* input = inputs.read(i);
        const T* gradient = upstream.read(i);
        const T* factor = ups.read(i);
        T* dinput = input_gradients.open(i);
        if (!gated) {
          for (Index j = 0; j < inputs.count(); ++j) dinput[j] = gradient[j] * act(input[j]).slope;
        } else {
          T* dfactor = up_gradients.open(i);
          for (Index j = 0; j < inputs.count(); ++j) {
            const ValueAndSlope<T> here = act(input[j]);
            dinput[j] = gradient[j] * here.slope * factor[j];
            dfactor[j] = gradient[j] * here.value;
          }
          up_gradients.write(i);
        }
        input_gradients.write(i);
      }
    });
  });
}

}  // namespace shardproof
