#include "harness/model/layout.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace shardproof {
namespace {

using Positions = std::vector<Index>;

// Calls `check(layout, length, ranks)` for every small combination, ranks without a token included.
template <typename Check>
void for_every_cut(Check check) {
  for (Layout layout : all_layouts()) {
    for (Index length = 0; length <= 70; ++length) {
      for (Index ranks = 1; ranks <= 17; ++ranks) check(layout, length, ranks);
    }
  }
}

TEST(Layout, EveryTokenHasExactlyOneOwner) {
  for_every_cut([](Layout layout, Index length, Index ranks) {
    std::vector<int> owners(static_cast<std::size_t>(length), 0);
    for (Index rank = 0; rank < ranks; ++rank) {
      for (Index position : owned_positions(layout, length, ranks, rank)) {
        ASSERT_GE(position, 0);
        ASSERT_LT(position, length);
        ++owners[static_cast<std::size_t>(position)];
      }
    }
    ASSERT_TRUE(std::ranges::all_of(owners, [](int count) { return count == 1; }))
        << name(layout) << ' ' << length << " on " << ranks;
  });
}

TEST(Layout, ARanksTokensAreSorted) {
  for_every_cut([](Layout layout, Index length, Index ranks) {
    for (Index rank = 0; rank < ranks; ++rank) {
      ASSERT_TRUE(std::ranges::is_sorted(owned_positions(layout, length, ranks, rank)));
    }
  });
}

TEST(Layout, OwnerOfInvertsOwnedPositions) {
  for_every_cut([](Layout layout, Index length, Index ranks) {
    for (Index rank = 0; rank < ranks; ++rank) {
      const Positions owned = owned_positions(layout, length, ranks, rank);
      for (Index local = 0; local < std::ssize(owned); ++local) {
        const Owner want{rank, local};
        ASSERT_EQ(owner_of(layout, length, ranks, owned[static_cast<std::size_t>(local)]), want)
            << name(layout) << ' ' << length << " on " << ranks;
      }
    }
  });
}

TEST(Layout, ShardSizesDifferByAtMostOne) {
  for_every_cut([](Layout layout, Index length, Index ranks) {
    Index least = length;
    Index most = 0;
    for (Index rank = 0; rank < ranks; ++rank) {
      const Index count = std::ssize(owned_positions(layout, length, ranks, rank));
      least = std::min(least, count);
      most = std::max(most, count);
    }
    ASSERT_LE(most - least, 1) << name(layout) << ' ' << length << " on " << ranks;
  });
}

TEST(Layout, ContiguousGivesEachRankOneRun) {
  EXPECT_EQ(owned_positions(Layout::kContiguous, 7, 3, 0), (Positions{0, 1, 2}));
  EXPECT_EQ(owned_positions(Layout::kContiguous, 7, 3, 1), (Positions{3, 4}));
  EXPECT_EQ(owned_positions(Layout::kContiguous, 7, 3, 2), (Positions{5, 6}));
}

TEST(Layout, ZigzagPairsAnEarlyPartWithALateOne) {
  EXPECT_EQ(owned_positions(Layout::kZigzag, 8, 2, 0), (Positions{0, 1, 6, 7}));
  EXPECT_EQ(owned_positions(Layout::kZigzag, 8, 2, 1), (Positions{2, 3, 4, 5}));
  EXPECT_EQ(owned_positions(Layout::kZigzag, 5, 2, 0), (Positions{0, 1, 4}));
  EXPECT_EQ(owned_positions(Layout::kZigzag, 5, 2, 1), (Positions{2, 3}));
}

TEST(Layout, StripedDealsTokensInTurn) {
  EXPECT_EQ(owned_positions(Layout::kStriped, 7, 3, 0), (Positions{0, 3, 6}));
  EXPECT_EQ(owned_positions(Layout::kStriped, 7, 3, 2), (Positions{2, 5}));
}

// The number of causal (query, key) pairs that fall to a rank's queries.
Index causal_work(Layout layout, Index length, Index ranks, Index rank) {
  Index pairs = 0;
  for (Index position : owned_positions(layout, length, ranks, rank)) pairs += position + 1;
  return pairs;
}

TEST(Layout, ZigzagBalancesCausalWorkWhereContiguousDoesNot) {
  for (Index ranks : {2, 3, 8}) {
    const Index length = 2 * ranks * 5;
    const Index even = length * (length + 1) / 2 / ranks;
    for (Index rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(causal_work(Layout::kZigzag, length, ranks, rank), even);
      EXPECT_LE(std::abs(causal_work(Layout::kStriped, length, ranks, rank) - even),
                length / ranks * ranks / 2);
    }
    EXPECT_GE(causal_work(Layout::kContiguous, length, ranks, ranks - 1), even * 3 / 2 - length);
    EXPECT_GT(causal_work(Layout::kContiguous, length, ranks, ranks - 1), even * 5 / 4);
  }
}

TEST(Layout, FindsOwnersInVeryLongSequencesWithoutListingThem) {
  const Index length = (Index{1} << 40) + 12345;
  const Index ranks = 1021;
  for (Index position : {Index{0}, Index{1}, length / 3, length / 2, length - 2, length - 1}) {
    const Owner contiguous = owner_of(Layout::kContiguous, length, ranks, position);
    EXPECT_EQ(even_part(length, ranks, contiguous.rank).first + contiguous.local, position);
    const Owner striped = owner_of(Layout::kStriped, length, ranks, position);
    EXPECT_EQ(striped.local * ranks + striped.rank, position);
    const Owner zigzag = owner_of(Layout::kZigzag, length, ranks, position);
    const Range early = even_part(length, 2 * ranks, zigzag.rank);
    const Range late = even_part(length, 2 * ranks, 2 * ranks - 1 - zigzag.rank);
    const bool is_early = zigzag.local < early.count;
    EXPECT_EQ(is_early ? early.first + zigzag.local : late.first + zigzag.local - early.count,
              position);
  }
}

TEST(Layout, EvenPartsFollowEachOtherAndCoverTheLength) {
  for (Index length = 0; length <= 40; ++length) {
    for (Index parts = 1; parts <= 20; ++parts) {
      Index next = 0;
      for (Index part = 0; part < parts; ++part) {
        const Range range = even_part(length, parts, part);
        ASSERT_EQ(range.first, next);
        ASSERT_EQ(range.count, length / parts + (part < length % parts ? 1 : 0));
        next += range.count;
      }
      ASSERT_EQ(next, length);
    }
  }
}

TEST(Layout, NamesComeBackAndStrangersDoNot) {
  for (Layout layout : all_layouts()) EXPECT_EQ(layout_from(name(layout)), layout);
  EXPECT_FALSE(layout_from("Zigzag"));
  EXPECT_FALSE(layout_from(""));
}

}  // namespace
}  // namespace shardproof
