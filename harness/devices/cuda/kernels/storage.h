// Elements of any storage type as float or double. Narrowing rounds once, to nearest, ties to even;
// NaN becomes a quiet one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "harness/devices/cuda/kernels/block.h"
#include "harness/model/dtype.h"

namespace shardproof::kernels {

template <typename To, typename From>
SHARDPROOF_KERNEL To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

// The bits of a finite value without the `dropped` lowest: the nearer neighbour, the even one of
// two that are equally near. What is larger than the largest carries into the bits of infinity.
SHARDPROOF_KERNEL inline std::uint32_t nearest_bits(std::uint32_t bits, int dropped) {
  const std::uint32_t unit = 1u << dropped;
  const std::uint32_t below = bits & ~(unit - 1);
  const std::uint32_t rest = bits - below;
  const bool even = (below & unit) == 0;
  const bool up = rest > unit / 2 || (rest == unit / 2 && !even);
  return up ? below + unit : below;
}

SHARDPROOF_KERNEL inline bool is_finite_bits(std::uint32_t bits) {
  return (bits & 0x7f800000u) != 0x7f800000u;
}

SHARDPROOF_KERNEL inline float rounded_to_tf32(float value) {
  const auto bits = bits_as<std::uint32_t>(value);
  return is_finite_bits(bits) ? bits_as<float>(nearest_bits(bits, 13)) : value;
}

SHARDPROOF_KERNEL inline std::uint16_t bits_of_bf16(float value) {
  const auto bits = bits_as<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>(nearest_bits(bits, 16) >> 16);
}

SHARDPROOF_KERNEL inline float value_of_bf16(std::uint16_t bits) {
  return bits_as<float>(static_cast<std::uint32_t>(bits) << 16);
}

// The magnitude is rounded by adding a number in whose last place f16's last place lies.
SHARDPROOF_KERNEL inline std::uint16_t bits_of_f16(float value) {
  const auto sign = static_cast<std::uint16_t>((bits_as<std::uint32_t>(value) >> 16) & 0x8000u);
  const float magnitude = value < 0 ? -value : value;
  if (value != value) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 65520.0f) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x1p-14f) {  // a multiple of 2^-24, the last place of numbers in [1/2, 1)
    const float shifted = magnitude + 0.5f;
    return static_cast<std::uint16_t>(
        sign | (bits_as<std::uint32_t>(shifted) - bits_as<std::uint32_t>(0.5f)));
  }
  const std::uint32_t bits = nearest_bits(bits_as<std::uint32_t>(magnitude), 13);
  return static_cast<std::uint16_t>(sign | ((bits - 0x38000000u) >> 13));
}

SHARDPROOF_KERNEL inline float value_of_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return bits_as<float>(bits_as<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t widened = exponent == 0x1fu ? 0xffu : exponent + 112;
  return bits_as<float>(sign | (widened << 23) | (fraction << 13));
}

SHARDPROOF_KERNEL inline float to_float(float value, bool) { return value; }

// `odd`: toward the neighbour whose last bit is 1 where the value is no float, so that rounding it
// once more, to a type that is narrower by two bits at least, is the same as rounding once
// (Boldo & Melquiond 2008).
SHARDPROOF_KERNEL inline float to_float(double value, bool odd) {
  const auto nearest = static_cast<float>(value);
  const double back = nearest;
  auto bits = bits_as<std::uint32_t>(nearest);
  if (!odd || value != value || back == value || (bits & 1u) != 0) return nearest;
  const bool away = (back < 0 ? -back : back) > (value < 0 ? -value : value);
  return bits_as<float>(away ? bits - 1 : bits + 1);
}

// Element `index` of memory of `dtype`.
template <typename T>
SHARDPROOF_KERNEL T load_element(DType dtype, const std::byte* data, Index index) {
  switch (dtype) {
    case DType::kF64:
      return static_cast<T>(reinterpret_cast<const double*>(data)[index]);
    case DType::kF32:
    case DType::kTf32:
      return static_cast<T>(reinterpret_cast<const float*>(data)[index]);
    case DType::kBf16:
      return static_cast<T>(value_of_bf16(reinterpret_cast<const std::uint16_t*>(data)[index]));
    case DType::kF16:
      break;
  }
  return static_cast<T>(value_of_f16(reinterpret_cast<const std::uint16_t*>(data)[index]));
}

template <typename T>
SHARDPROOF_KERNEL void store_element(DType dtype, std::byte* data, Index index, T value) {
  switch (dtype) {
    case DType::kF64:
      reinterpret_cast<double*>(data)[index] = static_cast<double>(value);
      return;
    case DType::kF32:
      reinterpret_cast<float*>(data)[index] = to_float(value, false);
      return;
    case DType::kTf32:
      reinterpret_cast<float*>(data)[index] = rounded_to_tf32(to_float(value, true));
      return;
    case DType::kBf16:
      reinterpret_cast<std::uint16_t*>(data)[index] = bits_of_bf16(to_float(value, true));
      return;
    case DType::kF16:
      reinterpret_cast<std::uint16_t*>(data)[index] = bits_of_f16(to_float(value, true));
      return;
  }
}

// `value` as memory of `dtype` would hold it.
template <typename T>
SHARDPROOF_KERNEL T rounded(DType dtype, T value) {
  switch (dtype) {
    case DType::kF64:
      return value;
    case DType::kF32:
      return static_cast<T>(to_float(value, false));
    case DType::kTf32:
      return static_cast<T>(rounded_to_tf32(to_float(value, true)));
    case DType::kBf16:
      return static_cast<T>(value_of_bf16(bits_of_bf16(to_float(value, true))));
    case DType::kF16:
      break;
  }
  return static_cast<T>(value_of_f16(bits_of_f16(to_float(value, true))));
}

}  // namespace shardproof::kernels
