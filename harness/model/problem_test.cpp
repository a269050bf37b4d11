#include "harness/model/problem.h"

#include <gtest/gtest.h>

#include <functional>

namespace shardproof {
namespace {

// How many of 40 x 40 pairs are kept.
int kept_pairs(const std::function<bool(Index, Index)>& is_kept) {
  int count = 0;
  for (Index query = 0; query < 40; ++query) {
    for (Index key = 0; key < 40; ++key) count += is_kept(query, key) ? 1 : 0;
  }
  return count;
}

TEST(Dropout, KeepsTheShareThatItLeaves) {
  for (double dropout : {0.0, 0.1, 0.5}) {
    const int kept =
        kept_pairs([&](Index query, Index key) { return is_kept(7, dropout, 1, 2, query, key); });
    EXPECT_NEAR(kept, 1600 * (1 - dropout), dropout == 0 ? 0 : 80);
  }
}

// Two masks that have nothing to do with each other agree in half of the pairs.
TEST(Dropout, DependsOnTheSeedAndEveryCoordinate) {
  const auto agreeing = [](const std::function<bool(Index, Index)>& other) {
    return kept_pairs([&](Index query, Index key) {
      return other(query, key) == is_kept(7, 0.5, 1, 2, query, key);
    });
  };
  EXPECT_EQ(agreeing([](Index i, Index j) { return is_kept(7, 0.5, 1, 2, i, j); }), 1600);
  EXPECT_NEAR(agreeing([](Index i, Index j) { return is_kept(8, 0.5, 1, 2, i, j); }), 800, 120);
  EXPECT_NEAR(agreeing([](Index i, Index j) { return is_kept(7, 0.5, 0, 2, i, j); }), 800, 120);
  EXPECT_NEAR(agreeing([](Index i, Index j) { return is_kept(7, 0.5, 2, 1, i, j); }), 800, 120);
  EXPECT_NEAR(agreeing([](Index i, Index j) { return is_kept(7, 0.5, 1, 2, j, i); }), 800, 120);
  EXPECT_NEAR(agreeing([](Index i, Index j) { return is_kept(7, 0.5, 1, 2, i + 1, j); }), 800, 120);
}

TEST(Dropout, FactorIsRoundedToTheAccumulator) {
  Problem problem;
  problem.dropout = 0.1;
  EXPECT_EQ(dropout_factor(problem), static_cast<double>(static_cast<float>(1 / 0.9)));
  problem.dtype = DType::kF64;
  EXPECT_EQ(dropout_factor(problem), 1 / (1 - 0.1));
}

}  // namespace
}  // namespace shardproof
