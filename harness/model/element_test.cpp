#include "harness/model/element.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/model/element_fixture.h"

namespace shardproof {
namespace {

std::vector<DataRecipe> all_recipes() {
  std::vector<DataRecipe> result;
  for (std::size_t i = 0; i < names_of_recipe().size(); ++i) {
    result.push_back(static_cast<DataRecipe>(i));
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
