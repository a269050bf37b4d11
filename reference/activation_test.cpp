#include "reference/activation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace shardproof {
namespace {

constexpr Activation kSmooth[] = {Activation::kGelu, Activation::kGeluTanh, Activation::kSilu};
constexpr Activation kAll[] = {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
                               Activation::kSilu};

long double value(Activation activation, long double z) { return slopes(activation, z).value; }
long double first(Activation activation, long double z) { return slopes(activation, z).first; }
long double second(Activation activation, long double z) { return slopes(activation, z).second; }

// The textbook forms, for moderate z.
double textbook(Activation activation, double z) {
  switch (activation) {
    case Activation::kRelu:
      return z > 0 ? z : 0;
    case Activation::kGelu:
      return z / 2 * (1 + std::erf(z / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return z / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)));
    case Activation::kSilu:
      return z / (1 + std::exp(-z));
  }
  return 0;
}

TEST(Activation, ValuesAreTheTextbookOnes) {
  for (Activation activation : kAll) {
    for (double z = -4; z <= 4; z += 0.37) {
      EXPECT_NEAR(slopes(activation, z).value, textbook(activation, z), 1e-14);
    }
  }
  EXPECT_GT(std::fabs(textbook(Activation::kGelu, 1) - textbook(Activation::kGeluTanh, 1)), 1e-4);
}

TEST(Activation, DerivativesAreThoseOfFiniteDifferences) {
  const long double h = 1e-5L;
  for (Activation activation : kAll) {
    for (long double z = -6; z <= 6; z += 0.1234L) {
      const long double slope = (value(activation, z + h) - value(activation, z - h)) / (2 * h);
      EXPECT_NEAR(static_cast<double>(first(activation, z) - slope), 0, 1e-9);
      if (activation == Activation::kRelu) continue;
      const long double curve = (first(activation, z + h) - first(activation, z - h)) / (2 * h);
      EXPECT_NEAR(static_cast<double>(second(activation, z) - curve), 0, 1e-9);
    }
  }
}

TEST(Activation, ReluHasNoSlopeAtTheKink) {
  EXPECT_EQ(slopes(Activation::kRelu, 0.0).first, 0);
  EXPECT_EQ(slopes(Activation::kRelu, 1e-300).first, 1);
}

TEST(Activation, FarValuesStayFinite) {
  for (Activation activation : kAll) {
    for (double z : {-1e300, -1e30, -800.0, 800.0, 1e30, 1e300}) {
      const Slopes<double> at = slopes(activation, z);
      EXPECT_EQ(at.value, z > 0 ? z : 0) << z;
      EXPECT_EQ(at.first, z > 0 ? 1 : 0) << z;
      EXPECT_EQ(at.second, 0) << z;
    }
  }
}

// Scans outward from z = 50, so that the supremum over |x| >= distance is known exactly.
TEST(Activation, CurvatureBoundsHoldAndAreNearlyReached) {
  const long double h = 1e-5L;
  for (Activation activation : kSmooth) {
    double largest_two = 0;
    double largest_three = 0;
    double lowest = 0;
    double highest = 0;
    for (long double distance = 50; distance >= 0; distance -= 0.005L) {
      for (long double z : {distance, -distance}) {
        largest_two = std::max(largest_two, std::fabs(static_cast<double>(second(activation, z))));
        const long double third = (second(activation, z + h) - second(activation, z - h)) / (2 * h);
        largest_three = std::max(largest_three, std::fabs(static_cast<double>(third)));
        lowest = std::min(lowest, static_cast<double>(first(activation, z)));
        highest = std::max(highest, static_cast<double>(first(activation, z)));
      }
      const auto at = static_cast<double>(distance);
      ASSERT_LE(largest_two, largest_second(activation, at) + 1e-12) << at;
      ASSERT_LE(largest_three, largest_third(activation, at) + 1e-9) << at;
    }
    EXPECT_GT(largest_two, 0.999 * largest_second(activation, 0));
    EXPECT_GT(largest_three, 0.99 * largest_third(activation, 0));
    EXPECT_LE(highest, kLargestSlope);
    EXPECT_LE(highest - lowest, kSlopeRange);
    EXPECT_GT(highest - lowest, 0.95 * kSlopeRange - 0.01);
  }
}

// float arithmetic as a subject may write it stays within the library error, far out too.
TEST(Activation, FloatArithmeticKeepsTheLibraryError) {
  const Precision precision;
  for (int i = -12000; i <= 12000; ++i) {
    const float z = static_cast<float>(i) * 0.0101f;
    const float inner = 0.79788456f * (z + 0.044715f * z * z * z);
    const float share = 1 / (1 + std::exp(-z));
    const float tanh = std::tanh(inner);
    const float normal = 0.5f * (1 + std::erf(z * 0.70710678f));
    const struct {
      Activation activation;
      float value, first;
    } computed[] = {
        {Activation::kGelu, z * normal, normal + z * 0.39894228f * std::exp(-0.5f * z * z)},
        {Activation::kGeluTanh, 0.5f * z * (1 + tanh),
         0.5f * (1 + tanh) + 0.5f * z * (1 - tanh * tanh) * 0.79788456f * (1 + 0.134145f * z * z)},
        {Activation::kSilu, z * share, share * (1 + z * (1 - share))},
        {Activation::kSilu, z / (1 + std::exp(-z)), share + z * share * (1 - share)}};
    for (const auto& at : computed) {
      const Slopes<double> exact = slopes(at.activation, static_cast<double>(z));
      const LibraryError error =
          library_error(at.activation, static_cast<double>(z), exact, precision);
      ASSERT_LE(std::fabs(static_cast<double>(at.value) - exact.value), error.value + 1e-44)
          << z << " " << static_cast<int>(at.activation);
      ASSERT_LE(std::fabs(static_cast<double>(at.first) - exact.first), error.first + 1e-44)
          << z << " " << static_cast<int>(at.activation);
    }
  }
}

// The two forms of gelu differ by up to 5e-4: a library error that wide would hide the mix-up.
TEST(Activation, TheLibraryErrorTellsTheTwoGelusApart) {
  const Precision precision;
  double most = 0;
  for (double z = -4; z <= 4; z += 0.01) {
    const Slopes<double> gelu = slopes(Activation::kGelu, z);
    const double gap = std::fabs(gelu.first - slopes(Activation::kGeluTanh, z).first);
    most = std::max(most, gap / library_error(Activation::kGelu, z, gelu, precision).first);
  }
  EXPECT_GT(most, 100);
}

}  // namespace
}  // namespace shardproof
