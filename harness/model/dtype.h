// Storage types: what they can represent, rounding to them, and their bits. All rounding is to
// nearest, ties to even. tf32 is stored as f32 with a 10-bit significand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace shardproof {

enum class DType : std::uint8_t { kF64, kF32, kTf32, kBf16, kF16 };

// A binary floating-point format (table in the numerics notes: u = 2^-p, eta = half the smallest
// subnormal).
struct Format {
  std::string_view name;
  int precision;              // significand bits, the hidden one included
  int minimum_exponent;       // exponent of the smallest normal number
  double maximum;             // largest finite value
  double overflow_threshold;  // smallest magnitude that rounds to infinity

  double u() const;
  double eta() const;
  double minimum_normal() const;
};

const Format& format(DType type);
std::span<const DType> all_dtypes();
std::optional<DType> dtype_from(std::string_view name);
inline std::size_t storage_bytes(DType type) {
  switch (type) {
    case DType::kF64:
      return 8;
    case DType::kF32:
    case DType::kTf32:
      return 4;
    case DType::kBf16:
    case DType::kF16:
      return 2;
  }
  return 0;
}

// f64 for f64 problems, f32 for all others: the type in which subjects accumulate.
DType accumulator_of(DType type);

// `value` rounded once to `type`.
double round_to(DType type, double value);

// Half the distance between neighbours of `magnitude` in `type`; eta at zero and in the subnormals.
double half_ulp(DType type, double magnitude);

// Reads or writes element `index` of a dense array of `type`. store() rounds.
double load(DType type, const void* data, std::ptrdiff_t index);
void store(DType type, void* data, std::ptrdiff_t index, double value);

std::uint16_t bf16_bits(float value);
float bf16_value(std::uint16_t bits);
std::uint16_t f16_bits(float value);
float f16_value(std::uint16_t bits);
float tf32_value(float value);

}  // namespace shardproof
