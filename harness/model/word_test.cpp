#include "harness/model/word.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace shardproof {
namespace {

Problem problem_with(double ignored) {
  Problem problem;
  problem.vocab = 7;
  problem.ignored = ignored;
  problem.seed = 3;
  return problem;
}

TensorSpec ids_spec() {
  TensorSpec spec;
  spec.name = "ids";
  spec.role = Role::kWord;
  spec.shape = {20, 100};
  spec.token_dimension = 1;
  return spec;
}

TEST(Word, EveryWordOfTheVocabularyOccursAndNothingElse) {
  const std::vector<double> ids = whole_tensor(problem_with(0), ids_spec());
  EXPECT_EQ(std::set<double>(ids.begin(), ids.end()), (std::set<double>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(Word, TheShareAskedForIsIgnored) {
  for (double ignored : {0.2, 0.9, 1.0}) {
    const std::vector<double> ids = whole_tensor(problem_with(ignored), ids_spec());
    const auto none = static_cast<double>(std::count(ids.begin(), ids.end(), -1.0));
    EXPECT_NEAR(none / 2000, ignored, 0.03);
  }
  EXPECT_EQ(std::set<double>({-1}), [] {
    const std::vector<double> ids = whole_tensor(problem_with(1), ids_spec());
    return std::set<double>(ids.begin(), ids.end());
  }());
}

TEST(Word, NeitherRecipeNorEditChangesTheWords) {
  const std::vector<double> ids = whole_tensor(problem_with(0.2), ids_spec());
  for (int recipe = 0; recipe < 10; ++recipe) {
    for (int edit = 0; edit < 8; ++edit) {
      Problem problem = problem_with(0.2);
      problem.data = static_cast<DataRecipe>(recipe);
      problem.edit = static_cast<Edit>(edit);
      EXPECT_EQ(whole_tensor(problem, ids_spec()), ids);
    }
  }
  Problem other = problem_with(0.2);
  other.seed = 4;
  EXPECT_NE(whole_tensor(other, ids_spec()), ids);
}

TEST(Word, PaddingAloneIsNanWhereHiddenIsNan) {
  Problem problem = problem_with(0);
  problem.padding = 2;
  TensorSpec spec;
  spec.name = "logits";
  spec.shape = {2, 3, 9};
  spec.token_dimension = 1;
  const std::vector<double> plain = whole_tensor(problem, spec);
  problem.edit = Edit::kHiddenNan;
  const std::vector<double> edited = whole_tensor(problem, spec);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_FALSE(std::isnan(plain[i]));
    EXPECT_EQ(std::isnan(edited[i]), i % 9 >= 7);
    EXPECT_TRUE(std::isnan(edited[i]) || edited[i] == plain[i]);
  }
}

}  // namespace
}  // namespace shardproof
