#include "harness/model/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace shardproof {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What the bits of a format with `exponent_bits` and `fraction_bits` stand for, from the
// definition.
double decode(unsigned bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = static_cast<int>(bits) & ((1 << fraction_bits) - 1);
  const double sign = bits >> (exponent_bits + fraction_bits) & 1u ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction ? std::nan("") : sign * kInfinity;
  const int hidden = exponent == 0 ? 0 : 1 << fraction_bits;
  return sign * std::ldexp(hidden + fraction, std::max(exponent, 1) - bias - fraction_bits);
}

double decode_bf16(unsigned bits) { return decode(bits, 8, 7); }
double decode_f16(unsigned bits) { return decode(bits, 5, 10); }

// Every finite magnitude of a narrow type in increasing order, then the power of two beyond, which
// is where infinity would be. An element is even when its index is: its last bit is the index's.
std::vector<double> magnitudes(DType type) {
  std::vector<double> result;
  if (type == DType::kTf32) {
    for (std::uint32_t i = 0; i < 255u << 10; ++i) {
      result.push_back(std::bit_cast<float>(i << 13));
    }
  } else {
    const bool bf16 = type == DType::kBf16;
    for (unsigned i = 0; i < (bf16 ? 0x7f80u : 0x7c00u); ++i) {
      result.push_back(bf16 ? decode_bf16(i) : decode_f16(i));
    }
  }
  result.push_back(type == DType::kF16 ? 65536.0 : 0x1p128);
  return result;
}

// The same with infinity where it belongs.
double at(const std::vector<double>& values, std::size_t index) {
  return index + 1 == values.size() ? kInfinity : values[index];
}

const std::vector<DType> kNarrow{DType::kTf32, DType::kBf16, DType::kF16};

bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

TEST(DType, EveryBf16PatternMeansItsDefinitionAndComesBack) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float value = bf16_value(static_cast<std::uint16_t>(bits));
    ASSERT_TRUE(same(value, decode_bf16(bits))) << bits;
    const std::uint16_t back = bf16_bits(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(bf16_value(back))) << bits;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

TEST(DType, EveryF16PatternMeansItsDefinitionAndComesBack) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float value = f16_value(static_cast<std::uint16_t>(bits));
    ASSERT_TRUE(same(value, decode_f16(bits))) << bits;
    const std::uint16_t back = f16_bits(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(f16_value(back))) << bits;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

TEST(DType, RoundsToTheNearerNeighbourAndTiesToTheEvenOne) {
  for (DType type : kNarrow) {
    const std::vector<double> values = magnitudes(type);
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      const double middle = (values[i] + values[i + 1]) / 2;  // exact: one bit more
      const double tie = i % 2 == 0 ? at(values, i) : at(values, i + 1);
      for (double sign : {1.0, -1.0}) {
        ASSERT_TRUE(same(round_to(type, sign * values[i]), sign * values[i])) << values[i];
        ASSERT_TRUE(same(round_to(type, sign * middle), sign * tie)) << middle;
        const double below = std::nextafter(middle, 0.0);
        const double above = std::nextafter(middle, kInfinity);
        ASSERT_TRUE(same(round_to(type, sign * below), sign * at(values, i))) << below;
        ASSERT_TRUE(same(round_to(type, sign * above), sign * at(values, i + 1))) << above;
      }
    }
  }
}

TEST(DType, RoundsFloatsTheSameWayByBits) {
  for (DType type : kNarrow) {
    const std::vector<double> values = magnitudes(type);
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      const auto middle = static_cast<float>((values[i] + values[i + 1]) / 2);
      const float above = std::nextafter(middle, std::numeric_limits<float>::max());
      for (float value : {std::nextafter(middle, 0.0f), middle, above}) {
        const double want = round_to(type, value);
        const double got = type == DType::kTf32   ? tf32_value(value)
                           : type == DType::kBf16 ? bf16_value(bf16_bits(value))
                                                  : f16_value(f16_bits(value));
        ASSERT_TRUE(same(got, want)) << format(type).name << ' ' << value;
      }
    }
  }
}

TEST(DType, RoundsToF32LikeTheHardware) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    const double next = std::nextafter(value, std::numeric_limits<float>::infinity());
    if (!std::isfinite(next)) continue;
    const double middle = (static_cast<double>(value) + next) / 2;
    const bool even = std::bit_cast<std::uint32_t>(value) % 2 == 0;
    ASSERT_EQ(round_to(DType::kF32, value), value);
    ASSERT_EQ(round_to(DType::kF32, middle), even ? value : next);
    ASSERT_EQ(round_to(DType::kF32, std::nextafter(middle, -kInfinity)), value);
    ASSERT_EQ(round_to(DType::kF32, std::nextafter(middle, kInfinity)), next);
    ASSERT_EQ(round_to(DType::kF64, middle), middle);
  }
}

TEST(DType, OverflowsExactlyAtItsThreshold) {
  for (DType type : {DType::kF32, DType::kTf32, DType::kBf16, DType::kF16}) {
    const Format& f = format(type);
    EXPECT_EQ(round_to(type, f.maximum), f.maximum) << f.name;
    EXPECT_EQ(round_to(type, std::nextafter(f.overflow_threshold, 0.0)), f.maximum) << f.name;
    EXPECT_EQ(round_to(type, f.overflow_threshold), kInfinity) << f.name;
    EXPECT_EQ(round_to(type, -f.overflow_threshold), -kInfinity) << f.name;
  }
  EXPECT_EQ(format(DType::kF16).maximum, 65504.0);
  EXPECT_EQ(f16_bits(65519.996f), 0x7bffu);
  EXPECT_EQ(f16_bits(65520.0f), 0x7c00u);
}

TEST(DType, KeepsSpecialValues) {
  for (DType type : all_dtypes()) {
    EXPECT_TRUE(std::isnan(round_to(type, std::nan(""))));
    EXPECT_EQ(round_to(type, kInfinity), kInfinity);
    EXPECT_EQ(round_to(type, -kInfinity), -kInfinity);
    EXPECT_TRUE(same(round_to(type, -0.0), -0.0));
    if (type == DType::kF64) continue;
    EXPECT_TRUE(same(round_to(type, -1e-300), -0.0)) << format(type).name;
  }
  // A NaN whose payload lies in the dropped bits must not become infinity.
  const auto thin = std::bit_cast<float>(0x7f800001u);
  EXPECT_TRUE(std::isnan(bf16_value(bf16_bits(thin))));
  EXPECT_TRUE(std::isnan(f16_value(f16_bits(thin))));
  EXPECT_TRUE(std::isnan(tf32_value(thin)));
}

TEST(DType, SmallestSubnormalIsTwiceEta) {
  for (DType type : all_dtypes()) {
    const Format& f = format(type);
    if (type == DType::kF64) continue;  // its eta is below every double
    EXPECT_EQ(round_to(type, 2 * f.eta()), 2 * f.eta()) << f.name;
    EXPECT_EQ(round_to(type, f.eta()), 0) << f.name;
    EXPECT_EQ(round_to(type, std::nextafter(f.eta(), 1.0)), 2 * f.eta()) << f.name;
    EXPECT_EQ(1 + 2 * f.u(), round_to(type, 1 + 1.01 * f.u())) << f.name;
    EXPECT_EQ(1, round_to(type, 1 + f.u())) << f.name;
  }
}

TEST(DType, HalfUlpIsHalfTheDistanceToTheNextValue) {
  for (DType type : kNarrow) {
    const std::vector<double> values = magnitudes(type);
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      ASSERT_EQ(half_ulp(type, values[i]), (values[i + 1] - values[i]) / 2) << values[i];
      ASSERT_EQ(half_ulp(type, -values[i]), half_ulp(type, values[i]));
    }
  }
  for (float value : {1.0f, 1.5f, 3.999f, 0x1p-126f, 0x1p-140f, 0.0f, 1e30f, 65504.0f}) {
    const double next = std::nextafter(value, std::numeric_limits<float>::infinity());
    EXPECT_EQ(half_ulp(DType::kF32, value), (next - value) / 2);
  }
  for (double value : {1.0, 1.9, 1e-300, 1e300}) {
    EXPECT_EQ(half_ulp(DType::kF64, value), (std::nextafter(value, kInfinity) - value) / 2);
  }
  EXPECT_EQ(half_ulp(DType::kBf16, kInfinity), kInfinity);
}

// Half the distance between the smallest numbers of f64 is no double.
TEST(DType, HalfUlpNeverVanishes) {
  for (DType type : all_dtypes()) {
    for (double value : {0.0, 0x1p-1074, 0x1p-1030, 0x1p-1022, 0x1.8p-1022, 0x1p-1021, 0x1p-126}) {
      EXPECT_GE(half_ulp(type, value), format(type).eta()) << format(type).name << ' ' << value;
      EXPECT_GT(half_ulp(type, value), 0) << format(type).name << ' ' << value;
    }
  }
}

TEST(DType, NoRoundingErrorExceedsHalfAnUlp) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100000; ++i) {
    const double fraction = 1 + static_cast<double>(random() >> 11) * 0x1p-53;
    const double value = std::ldexp(fraction, static_cast<int>(random() % 60) - 45);
    for (DType type : all_dtypes()) {
      if (value >= format(type).overflow_threshold) continue;
      ASSERT_LE(std::fabs(round_to(type, value) - value), half_ulp(type, value))
          << format(type).name << ' ' << value;
    }
  }
}

TEST(DType, StoresWithOneRoundingAndTouchesNothingElse) {
  // By way of f32 this would round to the tie 1 + 2^-8 first, and then down to 1.
  const double value = 1 + 0x1p-8 + 0x1p-30;
  std::uint16_t words[3] = {7, 7, 7};
  store(DType::kBf16, words, 1, value);
  EXPECT_EQ(load(DType::kBf16, words, 1), 1 + 0x1p-7);
  EXPECT_EQ(words[0], 7);
  EXPECT_EQ(words[2], 7);

  for (DType type : all_dtypes()) {
    double memory[4] = {0, 0, 0, 0};
    ASSERT_LE(storage_bytes(type), sizeof(double));
    for (std::ptrdiff_t i : {0, 1, 2}) store(type, memory, i, 1.0 / 3 - static_cast<double>(i));
    for (std::ptrdiff_t i : {0, 1, 2}) {
      EXPECT_EQ(load(type, memory, i), round_to(type, 1.0 / 3 - static_cast<double>(i)));
    }
    EXPECT_EQ(memory[3], 0);
  }
}

TEST(DType, NamesComeBackAndStrangersDoNot) {
  for (DType type : all_dtypes()) EXPECT_EQ(dtype_from(format(type).name), type);
  for (const char* name : {"", "float", "F32", "bf16 ", "f8"}) EXPECT_FALSE(dtype_from(name));
}

TEST(DType, OnlyF64AccumulatesInF64) {
  for (DType type : all_dtypes()) {
    EXPECT_EQ(accumulator_of(type), type == DType::kF64 ? DType::kF64 : DType::kF32);
  }
}

}  // namespace
}  // namespace shardproof
