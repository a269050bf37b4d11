#include "harness/model/shape.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(Shape({7}).elements(), 7);
  EXPECT_EQ(Shape({2, 3, 5}).elements(), 30);
  EXPECT_EQ(Shape({2, 0, 5}).elements(), 0);
  EXPECT_EQ(Shape({Index{1} << 20, Index{1} << 20}).elements(), Index{1} << 40);
}

TEST(Shape, CoordinatesInvertRowMajorPositions) {
  const Shape shape{3, 1, 4, 5};
  for (Index flat = 0; flat < shape.elements(); ++flat) {
    const auto at = shape.coordinates(flat);
    Index back = 0;
    for (int d = 0; d < shape.rank(); ++d) {
      ASSERT_LT(at[static_cast<std::size_t>(d)], shape[d]);
      back = back * shape[d] + at[static_cast<std::size_t>(d)];
    }
    ASSERT_EQ(back, flat);
  }
  EXPECT_EQ(shape.coordinates(59)[0], 2);
  EXPECT_EQ(shape.coordinates(59)[3], 4);
}

TEST(Shape, EqualityLooksAtRankAndEveryExtent) {
  EXPECT_EQ(Shape({2, 3}), Shape({2, 3}));
  EXPECT_FALSE(Shape({2, 3}) == Shape({3, 2}));
  EXPECT_FALSE(Shape({2, 3}) == Shape({2, 3, 1}));
  EXPECT_FALSE(Shape({2, 0}) == Shape({2}));
  Shape grown{2};
  grown.append(3);
  EXPECT_EQ(grown, Shape({2, 3}));
}

TEST(Shape, TextListsExtents) {
  EXPECT_EQ(Shape().text(), "[]");
  EXPECT_EQ(Shape({2, 33, 4}).text(), "[2, 33, 4]");
}

TEST(ShapeDeathTest, HasAtMostSixDimensions) {
  Shape shape{1, 2, 3, 4, 5, 6};
  EXPECT_DEATH(shape.append(7), "at most six dimensions");
}

}  // namespace
}  // namespace shardproof
