// How the errors of one hidden unit follow from those of its inputs.
#include <cmath>

#include "reference/mlp.h"

namespace shardproof {
namespace {

// relu: at most the error of z, and nothing where z cannot become positive. Within the error of the
// kink the result is one-sided.
Carried relu_error(double z, const Carried& z_error) {
  Carried error;
  if (z > -z_error.worst) error.worst = z_error.worst;
  const double likely = z_error.likely();
  if (z > likely) {
    error = {error.worst, z_error.square, z_error.common, z_error.coherent};
  } else if (z > -likely) {
    error.common = likely;
  }
  return error;
}

// Taylor about z, the second derivative being at most what it is anywhere within the error of z.
Carried activation_error(Activation activation, double z, const Carried& z_error,
                         const Slopes<double>& slopes, double library) {
  if (activation == Activation::kRelu) return relu_error(z, z_error);
  const double slope = std::fabs(slopes.first);
  const double worst = z_error.worst;
  const double likely = z_error.likely();
  const double curve = largest_second(activation, std::max(0.0, std::fabs(z) - worst));
  const double likely_curve = largest_second(activation, std::max(0.0, std::fabs(z) - likely));
  return {std::min(slope * worst + curve / 2 * worst * worst, kLargestSlope * worst) + library,
          slope * slope * z_error.square + square(likely_curve * kLambda * z_error.square / 2) +
              library * library,
          slope * z_error.common + likely_curve * z_error.common * likely,
          slope * slope * z_error.coherent};
}

// The derivative, likewise; relu's may be 0 or 1 within the error of the kink.
Carried slope_error(Activation activation, double z, const Carried& z_error,
                    const Slopes<double>& slopes, double library) {
  const double worst = z_error.worst;
  const double likely = z_error.likely();
  if (activation == Activation::kRelu) {
    return {std::fabs(z) <= worst && worst > 0 ? 1.0 : 0.0, 0,
            std::fabs(z) <= likely && likely > 0 ? 1.0 : 0.0, 0};
  }
  const double second = std::fabs(slopes.second);
  const double curve = largest_third(activation, std::max(0.0, std::fabs(z) - worst));
  const double likely_curve = largest_third(activation, std::max(0.0, std::fabs(z) - likely));
  return {std::min(second * worst + curve / 2 * worst * worst, kSlopeRange) + library,
          second * second * z_error.square + square(likely_curve * kLambda * z_error.square / 2) +
              library * library,
          second * z_error.common + likely_curve * z_error.common * likely,
          second * second * z_error.coherent};
}

// Element-wise factors may be multiplied in any order; each step may underflow.
void add_elementwise(Carried& error, double value, double steps, const ProductRule& rule) {
  // In f64 the value handed in is rounded itself: only a moderate integer tells that it was exact.
  const bool tells = rule.precision.elementwise != DType::kF64 ||
                     (std::trunc(value) == value && std::fabs(value) < 0x1p40);
  if (tells && error.exact() && representable(rule.precision.elementwise, value)) return;
  const double relative = steps * rule.units.elementwise.u * std::fabs(value);
  const double below = 2 * steps * rule.units.elementwise.eta;
  error.worst += relative + below;
  error.square += relative * relative;
  error.common += below;
  const Format& f = format(rule.precision.elementwise);
  if (!(std::fabs(value) + error.worst < f.overflow_threshold)) {
    error = {kUnbounded, kUnbounded, kUnbounded, 0};
  }
}

}  // namespace

HiddenErrors hidden_errors(Activation activation, bool gated, const HiddenInputs& at,
                           const ProductRule& rule) {
  const bool smooth = activation != Activation::kRelu;
  const Slopes<double> slope = slopes(activation, at.z);
  const LibraryError library = library_error(activation, at.z, slope, rule.precision);
  const Carried v_error = activation_error(activation, at.z, at.z_error, slope, library.value);
  const Carried slope_of = slope_error(activation, at.z, at.z_error, slope, library.first);
  HiddenErrors errors;
  errors.a = gated ? product_error(slope.value, v_error, at.up, at.up_error) : v_error;
  // relu of a middle value is a middle value, and its gradient is da or 0.
  if (smooth || gated) {
    const double a = slope.value * at.up;
    add_elementwise(errors.a, a, 1 + gated, rule);
    add_middle_rounding(errors.a, rule, a);
  }
  const Carried factor = product_error(slope.first, slope_of, at.up, at.up_error);
  errors.dz = product_error(slope.first * at.up, factor, at.da, at.da_error);
  if (smooth || gated) {
    const double dz = slope.first * at.up * at.da;
    add_elementwise(errors.dz, dz, 2, rule);
    add_middle_rounding(errors.dz, rule, dz);
  }
  if (gated) {
    const double dup = slope.value * at.da;
    errors.dup = product_error(slope.value, v_error, at.da, at.da_error);
    add_elementwise(errors.dup, dup, 2, rule);
    add_middle_rounding(errors.dup, rule, dup);
  }
  return errors;
}

}  // namespace shardproof
