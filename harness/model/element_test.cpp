#include "harness/model/element.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/masks/masks.h"

namespace shardproof {
namespace {

const Role kRoles[] = {Role::kQuery,      Role::kKey,    Role::kValue, Role::kScoreBias,
                       Role::kActivation, Role::kWeight, Role::kBias,  Role::kUpstream};

Problem problem_of(DataRecipe data, DType dtype = DType::kF32, std::uint64_t seed = 1) {
  Problem problem;
  problem.data = data;
  problem.dtype = dtype;
  problem.seed = seed;
  problem.q = 9;
  problem.kv = 11;
  problem.mask.mask = all_masks()[0];
  return problem;
}

// [batch, tokens, heads, dim]
TensorSpec spec_of(Role role, DType dtype = DType::kF32, Shape shape = {2, 11, 3, 8}) {
  TensorSpec spec;
  spec.name = "x";
  spec.kind = role == Role::kUpstream ? TensorKind::kUpstream : TensorKind::kInput;
  spec.role = role;
  spec.dtype = dtype;
  spec.shape = shape;
  const bool has_tokens = role != Role::kWeight && role != Role::kBias && role != Role::kScoreBias;
  spec.token_dimension = has_tokens ? 1 : -1;
  return spec;
}

std::vector<DataRecipe> all_recipes() {
  std::vector<DataRecipe> result;
  for (std::size_t i = 0; i < names_of_recipe().size(); ++i) {
    result.push_back(static_cast<DataRecipe>(i));
  }
  return result;
}

std::size_t index_of(Index position) { return static_cast<std::size_t>(position); }

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

template <typename Check>
void for_every_tensor(Check check) {
  for (DataRecipe data : all_recipes()) {
    for (DType dtype : all_dtypes()) {
      for (Role role : kRoles) check(problem_of(data, dtype), spec_of(role, dtype));
    }
  }
}

TEST(Element, AShardHoldsWhatTheWholeTensorHolds) {
  for_every_tensor([](const Problem& problem, const TensorSpec& spec) {
    const std::vector<double> whole = whole_tensor(problem, spec);
    std::vector<Index> positions;
    for (Index i = spec.shape.elements() - 1; i >= 0; i -= 7) positions.push_back(i);
    std::vector<double> shard(positions.size());
    fill_elements(problem, spec, positions, shard);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      ASSERT_EQ(shard[i], whole[index_of(positions[i])]);
    }
  });
}

TEST(Element, EveryRecipeIsFiniteAndRepresentableInEveryDtype) {
  for_every_tensor([](const Problem& problem, const TensorSpec& spec) {
    for (double value : whole_tensor(problem, spec)) {
      ASSERT_TRUE(std::isfinite(value))
          << names_of_recipe()[static_cast<std::size_t>(problem.data)] << ' '
          << format(spec.dtype).name << " role " << static_cast<int>(spec.role);
      ASSERT_EQ(round_to(spec.dtype, value), value);
    }
  });
}

TEST(Element, SeedAndTensorNameChangeTheValues) {
  for (DataRecipe data : all_recipes()) {
    const Problem problem = problem_of(data);
    const TensorSpec spec = spec_of(Role::kValue);
    TensorSpec other = spec;
    other.name = "y";
    const std::vector<double> values = whole_tensor(problem, spec);
    EXPECT_EQ(values, whole_tensor(problem, spec));
    EXPECT_NE(values, whole_tensor(problem, other));
    EXPECT_NE(values, whole_tensor(problem_of(data, DType::kF32, 2), spec));
  }
}

TEST(Element, UpstreamGradientsAreNeverUniform) {
  for (DataRecipe data : all_recipes()) {
    const auto values = whole_tensor(problem_of(data), spec_of(Role::kUpstream));
    const std::set<double> distinct(values.begin(), values.end());
    EXPECT_GE(distinct.size(), data == DataRecipe::kInteger ? 4u : values.size() * 9 / 10);
    EXPECT_EQ(std::count(values.begin(), values.end(), 0.0), 0);
  }
}

TEST(Element, NormalHasMeanZeroVarianceOneAndNearlyGaussianTails) {
  const auto values = whole_tensor(problem_of(DataRecipe::kNormal, DType::kF64),
                                   spec_of(Role::kValue, DType::kF64, {1, 200000}));
  const Moments got = moments(values);
  EXPECT_NEAR(got.mean, 0, 6 / std::sqrt(2e5));
  EXPECT_NEAR(got.variance, 1, 6 * std::sqrt(1.7 / 2e5));
  EXPECT_NEAR(got.fourth, 2.7, 0.1);  // of a sum of four uniforms; a Gaussian has 3
}

TEST(Element, NormalNeighboursAreUncorrelated) {
  const auto values = whole_tensor(problem_of(DataRecipe::kNormal, DType::kF64),
                                   spec_of(Role::kValue, DType::kF64, {1, 100000}));
  for (std::size_t lag : {1u, 2u, 8u, 64u}) {
    double sum = 0;
    for (std::size_t i = 0; i + lag < values.size(); ++i) sum += values[i] * values[i + lag];
    EXPECT_NEAR(sum / 1e5, 0, 6 / std::sqrt(1e5)) << lag;
  }
}

TEST(Element, WeightsShrinkWithTheTermsOfTheirProduct) {
  const auto values = whole_tensor(problem_of(DataRecipe::kNormal),
                                   spec_of(Role::kWeight, DType::kF32, {256, 100}));
  EXPECT_NEAR(moments(values).variance, 1.0 / 256, 0.05 / 256);
}

TEST(Element, HeavyTailsReachFarBeyondNormalOnes) {
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

TEST(Element, CoordinatesAreAllDistinct) {
  for (DType dtype : {DType::kF64, DType::kF32}) {
    const auto values = whole_tensor(problem_of(DataRecipe::kCoordinates, dtype),
                                     spec_of(Role::kValue, dtype, {2, 101, 4, 16}));
    const std::set<double> distinct(values.begin(), values.end());
    EXPECT_EQ(distinct.size(), values.size());
    EXPECT_NEAR(moments(values).mean, 0, 0.01);
    EXPECT_NEAR(moments(values).variance, 1, 0.02);
  }
}

TEST(Element, IntegersAreWholeAndSmallInEveryDtype) {
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

TEST(Element, ConstantRowsAreConstantAlongTheLastDimensionOnly) {
  const TensorSpec spec = spec_of(Role::kValue);
  const auto values = whole_tensor(problem_of(DataRecipe::kConstantRows), spec);
  std::set<double> rows;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], values[i / 8 * 8]);
    rows.insert(values[i]);
  }
  EXPECT_EQ(rows.size(), values.size() / 8);
}

TEST(Element, RampedKeysGrowWithTheirPosition) {
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

TEST(Element, TinyHoldsSubnormalsAndHugeStaysBelowInfinity) {
  for (DType dtype : {DType::kF32, DType::kTf32, DType::kBf16, DType::kF16}) {
    const auto tiny =
        whole_tensor(problem_of(DataRecipe::kTiny, dtype), spec_of(Role::kValue, dtype, {1, 1000}));
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

TEST(Element, AnEditChangesLaterTokensOfKeysAndValuesOnly) {
  for (DataRecipe data : {DataRecipe::kNormal, DataRecipe::kCoordinates, DataRecipe::kInteger}) {
    Problem edited = problem_of(data);
    edited.edit = Edit::kFrom;
    edited.edit_at = 4;
    for (Role role : kRoles) {
      const auto before = whole_tensor(problem_of(data), spec_of(role));
      const auto after = whole_tensor(edited, spec_of(role));
      const bool may_change =
          role == Role::kKey || role == Role::kValue || role == Role::kActivation;
      std::size_t changed = 0;
      bool first_changed = false;  // of the edited tokens
      for (std::size_t i = 0; i < before.size(); ++i) {
        const bool late = i / (3 * 8) % 11 >= 4;
        if (!may_change || !late) {
          ASSERT_EQ(before[i], after[i]);
        }
        changed += before[i] != after[i];
        first_changed = first_changed || (i / (3 * 8) % 11 == 4 && before[i] != after[i]);
      }
      if (may_change) {
        EXPECT_GT(changed, before.size() * 7 / 11 / 2);
        EXPECT_TRUE(first_changed);
      }
    }
  }
}

TEST(Element, HiddenNanPoisonsExactlyTheKeysAndValuesThatNobodySees) {
  Problem problem = problem_of(DataRecipe::kNormal);
  problem.edit = Edit::kHiddenNan;
  for (const Mask* mask : all_masks()) {
    if (mask->name == "padding") problem.mask = {mask, 6, 0};
  }
  for (Role role : kRoles) {
    const auto values = whole_tensor(problem, spec_of(role));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t batch = i / (11 * 3 * 8);
      const std::size_t token = i / (3 * 8) % 11;
      const bool hidden = (role == Role::kKey || role == Role::kValue) && token + batch >= 6;
      ASSERT_EQ(std::isnan(values[i]), hidden) << static_cast<int>(role) << ' ' << i;
    }
    // Whatever was drawn before.
    const std::vector<Index> jumping{0, 6 * 3 * 8, 11 * 3 * 8 + 5 * 3 * 8, 5, 10 * 3 * 8 + 3};
    std::vector<double> drawn(jumping.size());
    fill_elements(problem, spec_of(role), jumping, drawn);
    for (std::size_t i = 0; i < jumping.size(); ++i) {
      ASSERT_EQ(std::isnan(drawn[i]), std::isnan(values[static_cast<std::size_t>(jumping[i])]));
    }
  }
}

TEST(Element, EmptyTensorsHaveNoElements) {
  for (DataRecipe data : all_recipes()) {
    EXPECT_TRUE(
        whole_tensor(problem_of(data), spec_of(Role::kKey, DType::kF32, {2, 0, 3, 8})).empty());
  }
}

TEST(Element, MixIsTheFinaliserOfSplitMix64) {
  // The first outputs of SplitMix64 from seed 0 are the mixed multiples of its increment.
  EXPECT_EQ(mix(0x9e3779b97f4a7c15ull), 0xe220a8397b1dcdafull);
  EXPECT_EQ(mix(0x3c6ef372fe94f82aull), 0x6e789e6aa1b965f4ull);
  EXPECT_EQ(mix(0), 0u);
}

}  // namespace
}  // namespace shardproof
