#include "parallel_impls/chunks.h"

#include <gtest/gtest.h>

#include "harness/masks/masks.h"

namespace shardproof {
namespace {

TEST(Chunks, ListWhatTheLayoutOwnsInOrder) {
  for (Layout layout : all_layouts()) {
    for (Index length = 0; length < 20; ++length) {
      for (Index ranks : {1, 2, 3, 7}) {
        for (Index rank = 0; rank < ranks; ++rank) {
          std::vector<Index> positions;
          for (const Chunk& chunk : owned_chunks(layout, length, ranks, rank)) {
            EXPECT_EQ(chunk.first, static_cast<Index>(positions.size()));
            EXPECT_GT(chunk.count, 0);
            for (Index i = 0; i < chunk.count; ++i) positions.push_back(chunk.positions.at(i));
          }
          EXPECT_EQ(positions, owned_positions(layout, length, ranks, rank));
        }
      }
    }
  }
}

TEST(Chunks, AreOneForABlockTwoForAPairOneForStripes) {
  for (Index rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(owned_chunks(Layout::kContiguous, 16, 4, rank).size(), 1u);
    EXPECT_EQ(owned_chunks(Layout::kZigzag, 16, 4, rank).size(), 2u);
    EXPECT_EQ(owned_chunks(Layout::kStriped, 16, 4, rank).size(), 1u);
  }
  EXPECT_EQ(owned_chunks(Layout::kZigzag, 1, 4, 0).size(), 1u);
  EXPECT_TRUE(owned_chunks(Layout::kZigzag, 1, 4, 1).empty());
}

TEST(Visibility, AsksTheMaskAboutGlobalPositions) {
  Problem problem;
  problem.q = problem.kv = 12;
  for (const Mask* mask : all_masks()) {
    if (mask->name == "causal") problem.mask.mask = mask;
  }
  // Queries 1, 4, 7, 10 and keys 2, 5, 8, 11.
  const Chunk queries = owned_chunks(Layout::kStriped, 12, 3, 1)[0];
  const Chunk keys = owned_chunks(Layout::kStriped, 12, 3, 2)[0];
  const Visibility visible = visibility(problem, 0, queries, keys);
  const std::vector<std::uint8_t> want{0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0};
  EXPECT_EQ(visible.bytes, want);
  EXPECT_EQ(visible.key_seen, (std::vector<std::uint8_t>{1, 1, 1, 0}));
  EXPECT_TRUE(visible.any);
  EXPECT_FALSE(visible.every_key_seen);
}

TEST(Visibility, OfEmptyPairsIsSkipped) {
  Problem problem;
  problem.batch = 2, problem.q = problem.kv = 8;
  for (const Mask* mask : all_masks()) {
    if (mask->name == "causal") problem.mask.mask = mask;
  }
  const auto early = owned_chunks(Layout::kContiguous, 8, 2, 0);
  const auto late = owned_chunks(Layout::kContiguous, 8, 2, 1);
  EXPECT_EQ(visible_products(problem, early, late, 3), 0);
  EXPECT_EQ(visible_products(problem, late, early, 3), 2 * 3 * 4 * 4);
  EXPECT_EQ(visible_products(problem, late, {}, 3), 0);
}

}  // namespace
}  // namespace shardproof
