#include "harness/model/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "harness/model/element_fixture.h"

namespace shardproof {
namespace {

struct Moments {
  double mean = 0;
  double variance = 0;
  double fourth = 0;
};

Moments moments(const std::vector<double>& values) {
  Moments result;
  const auto count = static_cast<double>(values.size());
  for (double value : values) result.mean += value / count;
  for (double value : values) {
    const double square = (value - result.mean) * (value - result.mean);
    result.variance += square / count;
    result.fourth += square * square / count;
  }
  return result;
}

TEST(Recipe, NormalHasMeanZeroVarianceOneAndNearlyGaussianTails) {
  const auto values = whole_tensor(problem_of(DataRecipe::kNormal, DType::kF64),
                                   spec_of(Role::kValue, DType::kF64, {1, 200000}));
  const Moments got = moments(values);
  EXPECT_NEAR(got.mean, 0, 6 / std::sqrt(2e5));
  EXPECT_NEAR(got.variance, 1, 6 * std::sqrt(1.7 / 2e5));
  EXPECT_NEAR(got.fourth, 2.7, 0.1);  // of a sum of four uniforms; a Gaussian has 3
}

TEST(Recipe, NormalNeighboursAreUncorrelated) {
  const auto values = whole_tensor(problem_of(DataRecipe::kNormal, DType::kF64),
                                   spec_of(Role::kValue, DType::kF64, {1, 100000}));
  for (std::size_t lag : {1u, 2u, 8u, 64u}) {
    double sum = 0;
    for (std::size_t i = 0; i + lag < values.size(); ++i) sum += values[i] * values[i + lag];
    EXPECT_NEAR(sum / 1e5, 0, 6 / std::sqrt(1e5)) << lag;
  }
}

TEST(Recipe, WeightsShrinkWithTheTermsOfTheirProduct) {
  const auto values = whole_tensor(problem_of(DataRecipe::kNormal),
                                   spec_of(Role::kWeight, DType::kF32, {256, 100}));
  EXPECT_NEAR(moments(values).variance, 1.0 / 256, 0.05 / 256);
}

TEST(Recipe, HeavyTailsReachFarBeyondNormalOnes) {
  const TensorSpec spec = spec_of(Role::kValue, DType::kF32, {1, 20000});
  const auto largest = [&](DataRecipe data) {
    double result = 0;
    for (double value : whole_tensor(problem_of(data), spec)) {
      result = std::max(result, std::fabs(value));
    }
    return result;
  };
  EXPECT_LE(largest(DataRecipe::kNormal), 3.5);
  EXPECT_GE(largest(DataRecipe::kHeavyTailed), 15);
}

TEST(Recipe, CoordinatesAreAllDistinct) {
  for (DType dtype : {DType::kF64, DType::kF32}) {
    const auto values = whole_tensor(problem_of(DataRecipe::kCoordinates, dtype),
                                     spec_of(Role::kValue, dtype, {2, 101, 4, 16}));
    const std::set<double> distinct(values.begin(), values.end());
    EXPECT_EQ(distinct.size(), values.size());
    EXPECT_NEAR(moments(values).mean, 0, 0.01);
    EXPECT_NEAR(moments(values).variance, 1, 0.02);
  }
}

TEST(Recipe, IntegersAreWholeAndSmallInEveryDtype) {
  for (DType dtype : all_dtypes()) {
    for (Role role : kRoles) {
      std::set<double> seen;
      for (double value : whole_tensor(problem_of(DataRecipe::kInteger, dtype), spec_of(role))) {
        ASSERT_EQ(value, std::floor(value));
        ASSERT_LE(std::fabs(value), 2);
        seen.insert(value);
      }
      EXPECT_EQ(seen.size(), role == Role::kUpstream ? 4u : 5u);
    }
  }
}

TEST(Recipe, ConstantRowsAreConstantAlongTheLastDimensionOnly) {
  const TensorSpec spec = spec_of(Role::kValue);
  const auto values = whole_tensor(problem_of(DataRecipe::kConstantRows), spec);
  std::set<double> rows;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], values[i / 8 * 8]);
    rows.insert(values[i]);
  }
  EXPECT_EQ(rows.size(), values.size() / 8);
}

TEST(Recipe, RampedKeysGrowWithTheirPosition) {
  const Problem problem = problem_of(DataRecipe::kRamped);
  const auto keys = whole_tensor(problem, spec_of(Role::kKey));
  const auto queries = whole_tensor(problem, spec_of(Role::kQuery));
  for (Index token = 0; token < 11; ++token) {
    const auto at = index_of(token * 3 * 8);
    EXPECT_GT(queries[at], 0);
    if (token > 0) {
      EXPECT_GT(keys[at], keys[at - 3 * 8]);
    }
  }
  EXPECT_LT(keys[0] * queries[0], -90);  // the first logits alone make lse very negative
}

TEST(Recipe, SunkenLogitsAreBelowTenThousandAndNearEachOther) {
  const Problem problem = problem_of(DataRecipe::kSunken, DType::kF16);
  const auto keys = whole_tensor(problem, spec_of(Role::kKey, DType::kF16));
  const auto queries = whole_tensor(problem, spec_of(Role::kQuery, DType::kF16));
  for (Index token = 0; token < 11; ++token) {
    const auto at = index_of(token * 3 * 8);
    const double logit = queries[0] * keys[at] / std::sqrt(8);
    EXPECT_LT(logit, -19900);
    EXPECT_GT(logit, -20100);
  }
}

TEST(Recipe, TinyHoldsSubnormalsAndHugeStaysBelowInfinity) {
  for (DType dtype : {DType::kF32, DType::kTf32, DType::kBf16, DType::kF16}) {
    const auto tiny = whole_tensor(problem_of(DataRecipe::kTiny, dtype, 0),
                                   spec_of(Role::kValue, dtype, {1, 1000}));
    const double normal = format(dtype).minimum_normal();
    EXPECT_TRUE(std::any_of(tiny.begin(), tiny.end(), [&](double value) {
      return value != 0 && std::fabs(value) < normal;
    })) << format(dtype).name;
    const auto huge =
        whole_tensor(problem_of(DataRecipe::kHuge, dtype), spec_of(Role::kValue, dtype, {1, 1000}));
    double sum = 0;
    for (double value : huge) sum += std::fabs(value);
    EXPECT_GT(sum / 1000, std::sqrt(format(dtype).maximum)) << format(dtype).name;
  }
}

// Values, upstream gradients or both are tiny, as the seed says: else all products would be
// nothing.
TEST(Recipe, TinyLeavesSomethingInProducts) {
  const auto mean = [](std::uint64_t seed, Role role) {
    double sum = 0;
    for (double value : whole_tensor(problem_of(DataRecipe::kTiny, DType::kF32, seed),
                                     spec_of(role, DType::kF32, {1, 1000}))) {
      sum += std::fabs(value) / 1000;
    }
    return sum;
  };
  const std::pair<bool, bool> is_tiny[] = {{true, true}, {false, true}, {true, false}};
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    EXPECT_EQ(mean(seed, Role::kValue) < 1e-10, is_tiny[seed].first) << seed;
    EXPECT_EQ(mean(seed, Role::kUpstream) < 1e-10, is_tiny[seed].second) << seed;
  }
}

}  // namespace
}  // namespace shardproof
