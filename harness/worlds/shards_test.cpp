#include "harness/worlds/shards.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace shardproof {
namespace {

struct Piece {
  Index local, global, count;
  bool operator==(const Piece&) const = default;
};

std::vector<Piece> runs(const Shard& shard, const Shape& whole) {
  std::vector<Piece> found;
  for_each_run(shard, whole, [&](Index local, Index global, Index count) {
    found.push_back({local, global, count});
  });
  return found;
}

TEST(Shards, WhatIsHeldInFullIsOneRun) {
  EXPECT_EQ(runs({{0, 1}, {0, 1, 2}}, {2, 3}), (std::vector<Piece>{{0, 0, 6}}));
  EXPECT_EQ(runs({}, Shape{}), (std::vector<Piece>{{0, 0, 1}}));
}

TEST(Shards, NeighboursAreJoinedAndGapsAreNot) {
  EXPECT_EQ(runs({{1, 2, 5}, {0, 1}}, {6, 2}), (std::vector<Piece>{{0, 2, 4}, {4, 10, 2}}));
  EXPECT_EQ(runs({{1, 0}, {2}}, {2, 3}), (std::vector<Piece>{{0, 5, 1}, {1, 2, 1}}));
}

TEST(Shards, NothingHeldIsNoRun) {
  EXPECT_TRUE(runs({{}, {0, 1}}, {6, 2}).empty());
  EXPECT_TRUE(runs({{0, 1}, {}}, {2, 4}).empty());
  EXPECT_TRUE(runs({{}, {0}}, {0, 1}).empty());
}

TEST(Shards, BrokenRulesAreNamed) {
  EXPECT_EQ(broken_rule({{0}}, {2, 3}), "has 1 dimensions instead of 2");
  EXPECT_EQ(broken_rule({{0}, {-1}}, {2, 3}), "holds index -1 of dimension 1, which has extent 3");
  EXPECT_EQ(broken_rule({{0}, {3}}, {2, 3}), "holds index 3 of dimension 1, which has extent 3");
  EXPECT_EQ(broken_rule({{1}, {2}}, {2, 3}), "");
}

RC_GTEST_PROP(Shards, RunsVisitEveryElementInOrderAtItsGlobalPosition, ()) {
  Shape whole;
  Shard shard;
  const int rank = *rc::gen::inRange(1, 5);
  for (int d = 0; d < rank; ++d) {
    whole.append(*rc::gen::inRange<Index>(1, 6));
    const auto held = static_cast<std::size_t>(*rc::gen::inRange(0, 6));
    shard.push_back(
        *rc::gen::container<std::vector<Index>>(held, rc::gen::inRange<Index>(0, whole[d])));
  }
  const Shape part = shape_of(shard);
  Index next = 0;
  for (const Piece& run : runs(shard, whole)) {
    RC_ASSERT(run.local == next);
    for (Index i = 0; i < run.count; ++i, ++next) {
      RC_ASSERT(global_position(shard, whole, next) == run.global + i);
      const auto at = part.coordinates(next);
      const auto in_whole = whole.coordinates(run.global + i);
      for (std::size_t d = 0; d < shard.size(); ++d) {
        RC_ASSERT(in_whole[d] == shard[d][static_cast<std::size_t>(at[d])]);
      }
    }
  }
  RC_ASSERT(next == part.elements());
}

}  // namespace
}  // namespace shardproof
