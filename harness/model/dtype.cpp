#include "harness/model/dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/model/require.h"

namespace shardproof {
namespace {

constexpr std::array<DType, 5> kAll{DType::kF64, DType::kF32, DType::kTf32, DType::kBf16,
                                    DType::kF16};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// In the order of DType.
const std::array<Format, 5> kFormats{{
    {"f64", 53, -1022, std::numeric_limits<double>::max(), kInfinity},
    {"f32", 24, -126, 0x1.fffffep127, 0x1.ffffffp127},
    {"tf32", 11, -126, 0x1.ffcp127, 0x1.ffep127},
    {"bf16", 8, -126, 0x1.fep127, 0x1.ffp127},
    {"f16", 11, -14, 65504.0, 65520.0},
}};

// Rounds by adding half a unit of the last kept place to the bits; NaN and infinity are kept.
std::uint32_t round_bits(std::uint32_t bits, int dropped) {
  if ((bits & 0x7f800000u) == 0x7f800000u) return bits;
  const std::uint32_t odd = (bits >> dropped) & 1u;
  return (bits + ((1u << (dropped - 1)) - 1u) + odd) & ~((1u << dropped) - 1u);
}

// 2^exponent where that is a normal double. Bounds ask for it too often for ldexp.
double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

}  // namespace

double Format::u() const { return power_of_two(-precision); }
// Half the smallest subnormal of f64 is no double, and bounds multiply it: larger there.
double Format::eta() const {
  return precision == 53 ? 0x1p-1060 : power_of_two(minimum_exponent - precision);
}
double Format::minimum_normal() const { return power_of_two(minimum_exponent); }

const Format& format(DType type) { return kFormats[static_cast<std::size_t>(type)]; }

std::span<const DType> all_dtypes() { return kAll; }

std::optional<DType> dtype_from(std::string_view name) {
  for (DType type : kAll) {
    if (format(type).name == name) return type;
  }
  return std::nullopt;
}

DType accumulator_of(DType type) { return type == DType::kF64 ? DType::kF64 : DType::kF32; }

double round_to(DType type, double value) {
  if (type == DType::kF64 || !std::isfinite(value) || value == 0) return value;
  if (type == DType::kF32) return static_cast<double>(static_cast<float>(value));
  const Format& f = format(type);
  if (std::fabs(value) >= f.overflow_threshold) return std::copysign(kInfinity, value);
  const int exponent = std::max(std::ilogb(value), f.minimum_exponent) - (f.precision - 1);
  return std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
}

double half_ulp(DType type, double magnitude) {
  const Format& f = format(type);
  magnitude = std::fabs(magnitude);
  if (!(magnitude >= f.minimum_normal())) return f.eta();
  if (!std::isfinite(magnitude)) return kInfinity;
  // The power of two below `magnitude`: its exponent bits alone.
  const auto bits = std::bit_cast<std::uint64_t>(magnitude) & 0x7ff0000000000000ull;
  return std::max(std::bit_cast<double>(bits) * f.u(), f.eta());
}

double load(DType type, const void* data, std::ptrdiff_t index) {
  switch (type) {
    case DType::kF64:
      return static_cast<const double*>(data)[index];
    case DType::kF32:
    case DType::kTf32:
      return static_cast<double>(static_cast<const float*>(data)[index]);
    case DType::kBf16:
      return static_cast<double>(bf16_value(static_cast<const std::uint16_t*>(data)[index]));
    case DType::kF16:
      return static_cast<double>(f16_value(static_cast<const std::uint16_t*>(data)[index]));
  }
  return 0;
}

void store(DType type, void* data, std::ptrdiff_t index, double value) {
  const double rounded = round_to(type, value);
  switch (type) {
    case DType::kF64:
      static_cast<double*>(data)[index] = rounded;
      return;
    case DType::kF32:
    case DType::kTf32:
      static_cast<float*>(data)[index] = static_cast<float>(rounded);
      return;
    case DType::kBf16:
      static_cast<std::uint16_t*>(data)[index] = bf16_bits(static_cast<float>(rounded));
      return;
    case DType::kF16:
      static_cast<std::uint16_t*>(data)[index] = f16_bits(static_cast<float>(rounded));
      return;
  }
}

std::uint16_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>(round_bits(bits, 16) >> 16);
}

float bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t f16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00u);
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x1p-14f) {  // subnormal: the integer multiple of 2^-24 is the bit pattern
    return static_cast<std::uint16_t>(
        sign | static_cast<std::uint16_t>(std::nearbyint(magnitude * 0x1p24f)));
  }
  const std::uint32_t rounded = round_bits(bits & 0x7fffffffu, 13);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

float f16_value(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  }
  if (magnitude < 0x400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

float tf32_value(float value) {
  return std::bit_cast<float>(round_bits(std::bit_cast<std::uint32_t>(value), 13));
}

}  // namespace shardproof
