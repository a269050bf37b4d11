#include "harness/model/swamped.h"

#include <algorithm>

namespace shardproof {
namespace {

bool is_last_weight(const TensorSpec& spec) {
  return spec.role == Role::kWeight && spec.value_power == 1;
}

// The large terms of a dimension of `count` are its first and this one; -1: too few for any. The
// middle of the tokens is on another rank than the first in every layout, the last hidden unit is.
Index second_large(const TensorSpec& spec, Index count) {
  if (count < 3) return -1;
  return spec.role == Role::kValue ? std::min(count / 2 + 1, count - 1) : count - 1;
}

// 1, -1 or, of two large terms, 0: none of them.
double sign_of_large(const TensorSpec& spec, Index position) {
  if (!can_be_swamped(spec)) return 0;
  const int summed = std::max(spec.token_dimension, 0);
  const auto at = spec.shape.coordinates(position)[static_cast<std::size_t>(summed)];
  const Index second = second_large(spec, spec.shape[summed]);
  if (second < 0) return 0;
  return at == 0 ? 1 : at == second ? -1 : 0;
}

}  // namespace

double swamping_factor(DType type) { return type == DType::kF64 ? 0x1p30 : 0x1p12; }

bool can_be_swamped(const TensorSpec& spec) {
  return spec.kind == TensorKind::kInput && (spec.role == Role::kValue || is_last_weight(spec));
}

Index drawn_at(const TensorSpec& spec, Index position) {
  const int rank = spec.shape.rank();
  const bool makes_units =
      (spec.role == Role::kWeight || spec.role == Role::kBias) && spec.value_power == 0;
  if (!makes_units || rank == 0) return position;
  const Index units = spec.shape[rank - 1];
  return position % units == units - 1 ? position - (units - 1) : position;
}

double swamped(const TensorSpec& spec, Index position, std::uint64_t draw) {
  if (spec.role == Role::kQuery || spec.role == Role::kScoreBias) return 0;
  const double large = sign_of_large(spec, position);
  if (large != 0) return large * swamping_factor(spec.dtype);
  if (spec.kind == TensorKind::kUpstream) return draw >> 32 & 1 ? 1 : -1;
  return static_cast<double>((draw >> 32) % 3) - 1;
}

}  // namespace shardproof
