#include "harness/model/problem.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "harness/masks/masks.h"

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

std::vector<Index> positions(const Problem& problem, Side side) {
  std::vector<Index> result;
  for (Index token = 0; token < 9; ++token) {
    result.push_back(rotary_position(problem, side, token));
  }
  return result;
}

TEST(Rotary, PositionsAreThoseOfTheirKind) {
  Problem problem;
  problem.position_offset = 7;
  for (const Mask* mask : all_masks()) {
    if (mask->name == "documents") problem.mask = {mask, 2, 1};
  }
  const std::vector<Index> arange{0, 1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<Index> later{7, 8, 9, 10, 11, 12, 13, 14, 15};
  const auto expect = [&](PositionIds kind, const std::vector<Index>& of_queries,
                          const std::vector<Index>& of_keys) {
    problem.positions = kind;
    EXPECT_EQ(positions(problem, Side::kQueries), of_queries);
    EXPECT_EQ(positions(problem, Side::kKeys), of_keys);
  };
  expect(PositionIds::kArange, arange, arange);
  expect(PositionIds::kOffset, later, later);
  expect(PositionIds::kCached, later, arange);
  const std::vector<Index> packed{0, 1, 0, 1, 2, 0, 1, 2, 3};
  expect(PositionIds::kDocuments, packed, packed);
  const std::vector<Index> swapped{5, 4, 7, 6, 1, 0, 3, 2, 13};
  expect(PositionIds::kPermuted, swapped, swapped);
}

TEST(Rotary, AnglesFallByPairsAndAreRoundedToTheAccumulator) {
  const Turn none = rotary_turn(10000, 4, 0, 1, DType::kF64);
  EXPECT_EQ(none.cosine, 1);
  EXPECT_EQ(none.sine, 0);
  const Turn first = rotary_turn(10000, 4, 3, 0, DType::kF64);
  EXPECT_EQ(first.cosine, std::cos(3.0));
  EXPECT_EQ(first.sine, std::sin(3.0));
  EXPECT_NEAR(rotary_turn(10000, 4, 3, 1, DType::kF64).sine, std::sin(0.03), 1e-17);
  EXPECT_EQ(rotary_turn(10000, 4, 3, 0, DType::kF32).sine,
            static_cast<double>(static_cast<float>(std::sin(3.0))));
}

}  // namespace
}  // namespace shardproof
