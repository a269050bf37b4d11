#include "golden/error_map.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace shardproof {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(ErrorRatio, IsTheErrorInBounds) {
  EXPECT_EQ(error_ratio(3, 1, 4), 0.5);
  EXPECT_EQ(error_ratio(1, 3, 0.5), 4);
  EXPECT_EQ(error_ratio(1, 1, 0), 0);
  EXPECT_EQ(error_ratio(1, 2, 0), kInfinity);
  EXPECT_EQ(error_ratio(5, 1, kInfinity), 0);
}

TEST(ErrorRatio, NeverHidesWhatIsNoNumber) {
  EXPECT_EQ(error_ratio(-kInfinity, -kInfinity, 1), 0);
  EXPECT_EQ(error_ratio(kInfinity, 1, 1), kInfinity);
  EXPECT_EQ(error_ratio(kInfinity, -kInfinity, kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(error_ratio(kNan, 1, 1)));
  EXPECT_TRUE(std::isnan(error_ratio(1, kNan, kInfinity)));
  EXPECT_TRUE(std::isnan(error_ratio(1, 2, kNan)));
  EXPECT_EQ(error_ratio(kNan, kNan, 1), 0);
}

TEST(ErrorMap, PutsEveryErrorInItsPlace) {
  const Shape shape{2, 3, 4};  // batch, token, head
  std::vector<double> ratios(24, 0.1);
  ratios[0 * 12 + 1 * 4 + 2] = 5;    // token 1, head 2, in either batch
  ratios[1 * 12 + 1 * 4 + 2] = 0.7;  // not as bad as the other
  ratios[1 * 12 + 2 * 4 + 0] = 1;    // at the bound is not over it
  ratios[0 * 12 + 0 * 4 + 3] = 1e9;
  ratios[1 * 12 + 0 * 4 + 3] = kNan;  // worse than any number
  ratios[1 * 12 + 2 * 4 + 3] = 1000;
  EXPECT_EQ(error_map(shape, ratios, 1, 2, "token", "head"),
            "  token (down, 1 a row) x head (across, 1 a column)\n"
            "       0 ...N\n"
            "       1 ..+.\n"
            "       2 -..*\n");
}

TEST(ErrorMap, CutsLongDimensionsIntoBlocks) {
  const Shape shape{33, 130};
  std::vector<double> ratios(33 * 130, 0);
  ratios.back() = 1e4;
  const std::string map = error_map(shape, ratios, 0, 1, "token", "feature");
  EXPECT_TRUE(map.starts_with("  token (down, 3 a row) x feature (across, 3 a column)\n")) << map;
  EXPECT_TRUE(map.ends_with(".#\n")) << map;
  EXPECT_EQ(std::count(map.begin(), map.end(), '\n'), 12);
  EXPECT_EQ(std::count(map.begin(), map.end(), '#'), 1);
}

TEST(ErrorMap, OfNothingHasNoRows) {
  EXPECT_EQ(error_map(Shape{0, 3}, {}, 0, 1, "token", "head"),
            "  token (down, 1 a row) x head (across, 1 a column)\n");
}

TEST(ErrorMap, OfOneDimensionIsADiagonal) {
  EXPECT_EQ(error_map(Shape{2}, std::vector<double>{0, 3}, 0, 0, "token", "itself"),
            "  token (down, 1 a row) x itself (across, 1 a column)\n"
            "       0 ..\n"
            "       1 .+\n");
}

}  // namespace
}  // namespace shardproof
