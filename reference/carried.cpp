#include "reference/carried.h"

#include <type_traits>

namespace shardproof {
namespace {

// T3 needs enough elements in both directions (numerics: verdict procedure).
bool is_large_enough(const Shape& shape) {
  const int rank = shape.rank();
  if (rank < 2) return false;
  const Index last = shape[rank - 1];
  return last >= 32 && shape.elements() >= 32 * last && shape.elements() >= 1024;
}

// The reference of f64 problems is rounded once more, from long double, when it is stored.
template <class Real>
double storage_error(Real value) {
  if constexpr (std::is_same_v<Real, double>) return 0;
  return representable(DType::kF64, value) ? 0 : half_ulp(DType::kF64, static_cast<double>(value));
}

}  // namespace

ProductRule::ProductRule(const Precision& contract, bool want_errors)
    : precision(contract), units(contract), with_errors(want_errors) {}

int lowest_bit(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto exponent = static_cast<int>(bits >> 52 & 0x7ff);
  std::uint64_t significand = bits & 0xfffffffffffffull;
  if (exponent != 0) significand |= 1ull << 52;
  if (significand == 0) return kNoGrid;
  return std::max(exponent, 1) - 1075 + std::countr_zero(significand);
}

template <class Real>
bool representable(DType type, Real value) {
  const auto narrow = static_cast<double>(value);
  return static_cast<Real>(narrow) == value && round_to(type, narrow) == narrow;
}

template <class Real>
void add_rounding(Carried& error, DType type, Real value) {
  if (error.exact() && representable(type, value)) return;
  const Format& f = format(type);
  const double magnitude = std::fabs(static_cast<double>(value));
  const double likely = error.likely();
  const double worst = half_ulp(type, magnitude + error.worst);
  if (magnitude < f.minimum_normal()) {
    error.common += std::min(half_ulp(type, magnitude + likely), magnitude + likely);
  } else {
    error.square += square(half_ulp(type, magnitude + likely));
  }
  error.worst += worst;
  if (!(magnitude + error.reach() < f.overflow_threshold)) {
    error = {kUnbounded, kUnbounded, kUnbounded, 0};
  }
}

template <class Real>
void add_middle_rounding(Carried& error, const ProductRule& rule, Real value) {
  if (rule.units.middle.exists()) add_rounding(error, rule.precision.middle, value);
}

Carried product_error(double p, const Carried& p_error, double q, const Carried& q_error) {
  const double p2 = p * p;
  const double q2 = q * q;
  p = std::fabs(p);
  q = std::fabs(q);
  return {p * q_error.worst + q * p_error.worst + p_error.worst * q_error.worst,
          p2 * q_error.square + q2 * p_error.square +
              kLambda * kLambda * p_error.square * q_error.square,
          p * q_error.common + q * p_error.common + p_error.common * q_error.likely() +
              q_error.common * p_error.likely(),
          p2 * q_error.coherent + q2 * p_error.coherent};
}

template <class Real>
ExpectedTensor output_tensor(const TensorSpec& spec, const std::vector<Real>& values,
                             const std::vector<Bound>& bounds, Effort effort, bool generic,
                             const ProductRule& rule) {
  ExpectedTensor tensor;
  tensor.spec = spec;
  tensor.want.assign(values.begin(), values.end());
  if (effort == Effort::kValues) return tensor;
  const std::size_t size = values.size();
  tensor.worst.resize(size);
  tensor.likely.resize(size);
  tensor.sigma.resize(size);
  const OutputType type(spec.dtype, rule.precision);
  tensor.rms_applies = generic && is_large_enough(spec.shape);
  for (std::size_t i = 0; i < size; ++i) {
    Thresholds at = finish(bounds[i], tensor.want[i], type);
    if (bounds[i].worst == 0 && representable(spec.dtype, values[i])) at = {0, 0, 0};
    tensor.worst[i] = effort == Effort::kAll ? at.worst + storage_error(values[i]) : kUnbounded;
    tensor.likely[i] = at.likely + storage_error(values[i]);
    tensor.sigma[i] = at.sigma;
    const bool small_bias = bounds[i].linear <= 4 * kLambda * at.sigma;
    tensor.rms_applies = tensor.rms_applies && small_bias && at.likely < kUnbounded;
  }
  return tensor;
}

bool is_generic(const Problem& problem) {
  return problem.data == DataRecipe::kNormal && problem.edit == Edit::kNone;
}

template bool representable(DType, double);
template bool representable(DType, long double);
template void add_rounding(Carried&, DType, double);
template void add_rounding(Carried&, DType, long double);
template void add_middle_rounding(Carried&, const ProductRule&, double);
template void add_middle_rounding(Carried&, const ProductRule&, long double);
template ExpectedTensor output_tensor(const TensorSpec&, const std::vector<double>&,
                                      const std::vector<Bound>&, Effort, bool, const ProductRule&);
template ExpectedTensor output_tensor(const TensorSpec&, const std::vector<long double>&,
                                      const std::vector<Bound>&, Effort, bool, const ProductRule&);

}  // namespace shardproof
