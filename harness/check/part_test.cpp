#include "harness/check/part.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "harness/model/require.h"

namespace shardproof {
namespace {

TEST(Part, AllPartsTogetherHaveEveryNumberOnce) {
  for (std::uint64_t count : {1, 2, 3, 4, 5, 8, 64}) {
    for (std::uint64_t total : {0, 1, 7, 64, 1000, 1001}) {
      std::vector<int> times(total);
      for (std::uint64_t index = 0; index < count; ++index) {
        const Part part{index, count};
        const std::uint64_t share = part.share(total);
        for (std::uint64_t i = 0; i < share; ++i) {
          EXPECT_TRUE(i == 0 || part.nth(i - 1) < part.nth(i));
          ++times.at(part.nth(i));
        }
        EXPECT_GE(part.nth(share), total) << "one more would be below the total, too";
      }
      EXPECT_TRUE(std::all_of(times.begin(), times.end(), [](int each) { return each == 1; }))
          << count << " parts of " << total;
    }
  }
}

TEST(Part, NoPartGetsAllOfARegularSeries) {
  for (std::uint64_t count : {2, 3, 4, 8, 12}) {
    for (std::uint64_t every : {2, 3, 4, 64}) {
      for (std::uint64_t index = 0; index < count; ++index) {
        const Part part{index, count};
        int hits = 0;
        for (std::uint64_t i = 0; i < 10000; ++i) hits += part.nth(i) % every == 0;
        EXPECT_NEAR(hits * static_cast<double>(every) / 10000, 1, 0.3)
            << "of every " << every << "th, part " << part.text();
      }
    }
  }
}

TEST(Part, IsWrittenAsPeopleCount) {
  EXPECT_EQ(Part::parse("2/4"), (Part{1, 4}));
  EXPECT_EQ(Part::parse("1/1"), Part{});
  EXPECT_EQ((Part{1, 4}.text()), "2/4");
  for (const char* wrong : {"", "2", "0/4", "5/4", "1/0", "a/4", "1/4x", "-1/4", "1/2000000"}) {
    EXPECT_THROW(Part::parse(wrong), Error) << wrong;
  }
}

}  // namespace
}  // namespace shardproof
