#include "reference/activation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace shardproof {
namespace {

constexpr double kCubic = 0.044715;  // of the tanh form of gelu (Hendrycks & Gimpel 2016)

// 1 / (1 + e^-x), also where e^-x overflows.
template <class Real>
Real sigmoid(Real x) {
  const Real small = std::exp(-std::fabs(x));
  return (x < 0 ? small : Real{1}) / (1 + small);
}

// Phi(z) z: Phi by erfc, which keeps its relative accuracy far to the left.
template <class Real>
Slopes<Real> gelu(Real z) {
  const Real normal = std::erfc(-z / std::numbers::sqrt2_v<Real>) / 2;
  const Real density =
      std::exp(-z * z / 2) * std::numbers::inv_sqrtpi_v<Real> / std::numbers::sqrt2_v<Real>;
  if (density == 0) return {z * normal, normal, 0};
  return {z * normal, normal + z * density, density * (2 - z * z)};
}

// z / (1 + e^-2i), i = sqrt(2/pi) (z + c z^3), which equals z/2 (1 + tanh i).
template <class Real>
Slopes<Real> gelu_tanh(Real z) {
  const Real root = std::numbers::sqrt2_v<Real> * std::numbers::inv_sqrtpi_v<Real>;
  const Real cubic = static_cast<Real>(kCubic);
  const Real inner = root * (z + cubic * z * z * z);
  const Real inner_first = root * (1 + 3 * cubic * z * z);
  const Real share = sigmoid(2 * inner);
  const Real rest = sigmoid(-2 * inner);
  const Real squared = 4 * share * rest;  // 1 - tanh^2
  if (squared == 0) return {z * share, share, 0};
  const Real second = squared * (inner_first + 3 * root * cubic * z * z -
                                 z * (share - rest) * inner_first * inner_first);
  return {z * share, share + z * squared * inner_first / 2, second};
}

template <class Real>
Slopes<Real> silu(Real z) {
  const Real share = sigmoid(z);
  const Real rest = sigmoid(-z);
  if (share * rest == 0) return {z * share, share, 0};
  return {z * share, share * (1 + z * rest), share * rest * (2 + z * (rest - share))};
}

// 1 + erf(x) cancels for z < 0, so the error of the sum is absolute.
LibraryError gelu_error(double z, const Slopes<double>& at, const Precision& precision) {
  const double u = format(precision.elementwise).u();
  const double value = std::fabs(at.value);
  const double magnitude = std::fabs(z);
  const double peak = std::exp(-z * z / 2);
  const double first = peak == 0 ? 0 : 6 * magnitude * peak * (1 + z * z);
  return {u * (magnitude / 2 * (2 * precision.ulp_erf + 2) + 3 * value),
          u * (2 * precision.ulp_erf + 4 + first)};
}

// tanh is taken to return exactly 1 where 1 - tanh is far below u.
LibraryError gelu_tanh_error(double z, const Slopes<double>& at, const Precision& precision) {
  const Format& f = format(precision.elementwise);
  const double magnitude = std::fabs(z);
  if (magnitude * magnitude >= f.overflow_threshold) {
    return {f.u() * 3 * magnitude, std::numeric_limits<double>::infinity()};  // 0 * infinity
  }
  const double inner =
      0.7978845608028654 * (magnitude + kCubic * magnitude * magnitude * magnitude);
  const double value = std::fabs(at.value);
  if (2 * std::exp(-2 * inner) < f.u() / 16) return {f.u() * (magnitude + 3 * value), 4 * f.u()};
  const double squared = 1 - std::tanh(inner) * std::tanh(inner);
  const double relative = 6 * inner * squared + 2 * precision.ulp_tanh + 2;
  return {f.u() * (magnitude / 2 * relative + 3 * value),
          f.u() * (relative + 4 +
                   magnitude * (1 + z * z) * (8 * squared + std::tanh(inner) * relative))};
}

// Far to the left e^-z overflows and the quotient is 0 although the value is still normal. Far to
// the right 1 + e^-z is exactly 1, so that 1 - sigmoid is exactly 0 and z times it adds no error.
LibraryError silu_error(double z, const Slopes<double>& at, const Precision& precision) {
  const Format& f = format(precision.elementwise);
  const double magnitude = std::fabs(z);
  const double share = sigmoid(z);
  const double rest = sigmoid(-z);
  const double lost = -z > std::log(f.maximum) - 1 ? 1 : 0;
  const double value =
      f.u() * std::fabs(at.value) * (2 * precision.ulp_exp + 4 + 2 * magnitude * rest) +
      lost * std::fabs(at.value) + f.eta() * (magnitude + 1);
  if (z > 0 && rest < f.u() / 16) return {value, 4 * f.u()};
  return {value, f.u() * (2 * precision.ulp_exp + 6 + magnitude) *
                         (share + (rest == 0 ? 0 : magnitude * share * rest)) +
                     lost * std::fabs(at.first) + f.eta() * (magnitude + 1)};
}

}  // namespace

template <class Real>
Slopes<Real> slopes(Activation activation, Real z) {
  switch (activation) {
    case Activation::kRelu:
      return z > 0 ? Slopes<Real>{z, 1, 0} : Slopes<Real>{};
    case Activation::kGelu:
      return gelu(z);
    case Activation::kGeluTanh:
      return gelu_tanh(z);
    case Activation::kSilu:
      return silu(z);
  }
  return {};
}
template Slopes<double> slopes(Activation, double);
template Slopes<long double> slopes(Activation, long double);

LibraryError library_error(Activation activation, double z, const Slopes<double>& at,
                           const Precision& precision) {
  switch (activation) {
    case Activation::kRelu:
      return {};
    case Activation::kGelu:
      return gelu_error(z, at, precision);
    case Activation::kGeluTanh:
      return gelu_tanh_error(z, at, precision);
    case Activation::kSilu:
      return silu_error(z, at, precision);
  }
  return {};
}

// silu: |act''| = s(1-s) |2 + x(1-2s)| <= e^-|x| (2 + |x|), which decreases; likewise |act'''| <=
// e^-|x| (3 + |x|). The gelus decay faster; the test scans all of them.
double largest_second(Activation activation, double distance) {
  if (activation == Activation::kRelu) return 0;
  const double anywhere = activation == Activation::kSilu ? 0.5 : 0.7979;
  return distance < 1 ? anywhere : std::min(anywhere, std::exp(-distance) * (2 + distance));
}

double largest_third(Activation activation, double distance) {
  if (activation == Activation::kRelu) return 0;
  const double anywhere = activation == Activation::kSilu ? 0.3082 : 0.7788;
  return distance < 1 ? anywhere : std::min(anywhere, std::exp(-distance) * (3 + distance));
}

}  // namespace shardproof
