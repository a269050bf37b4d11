#include "harness/worlds/far_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "harness/run/memory.h"

namespace shardproof {
namespace {

TEST(FarMemory, TheLastRowNeedsMoreThan31Bits) {
  for (DType dtype : all_dtypes()) {
    for (Index rows : {2, 3, 4, 5, 48, 2048, 2049}) {
      FarMemory far;
      std::vector<View> gaps;
      const auto view = far.place(dtype, {rows, 3}, 0, gaps);
      ASSERT_TRUE(view);
      EXPECT_GE((rows - 1) * view->strides[0], Index{1} << 31) << rows;
      EXPECT_EQ(Memory::first_unwritten(*view), 0);
      view->set({rows - 1, 2}, 1.5);
      EXPECT_EQ(view->get({rows - 1, 2}), 1.5);
    }
  }
}

// Rows and gaps of several tensors, as ranges of addresses.
TEST(FarMemory, NoRowOrGapLiesOnAnother) {
  FarMemory far;
  std::vector<View> parts;
  for (const auto& [dtype, shape, dimension] :
       {std::tuple{DType::kF32, Shape{2, 5, 3}, 1}, std::tuple{DType::kF64, Shape{4, 7}, 0},
        std::tuple{DType::kBf16, Shape{9}, 0}, std::tuple{DType::kF32, Shape{33, 2}, 0}}) {
    const auto view = far.place(dtype, shape, dimension, parts);
    ASSERT_TRUE(view);
    for (Index row = 0; row < shape[dimension]; ++row) {
      const View part = view->select(dimension, row);
      EXPECT_TRUE(part.is_dense());
      parts.push_back(part);
    }
  }
  std::sort(parts.begin(), parts.end(),
            [](const View& a, const View& b) { return a.data < b.data; });
  for (std::size_t i = 1; i < parts.size(); ++i) {
    ASSERT_GE(parts[i].data, parts[i - 1].data + parts[i - 1].bytes());
  }
}

TEST(FarMemory, AnIndexCutTo32BitsPointsIntoAGap) {
  FarMemory far;
  std::vector<View> gaps;
  const auto view = far.place(DType::kF32, {4, 3}, 0, gaps);
  ASSERT_TRUE(view);
  const auto cut = static_cast<std::int32_t>(3 * view->strides[0]);
  const std::byte* wrong = view->data + Index{cut} * 4;
  const auto hit = std::find_if(gaps.begin(), gaps.end(), [&](const View& gap) {
    return wrong >= gap.data && wrong < gap.data + gap.bytes();
  });
  ASSERT_NE(hit, gaps.end());
  EXPECT_EQ(Memory::first_written(*hit), -1);
}

TEST(FarMemory, OneRowTooManyRowsAndTooLongOnesHaveNoPlace) {
  FarMemory far;
  std::vector<View> gaps;
  EXPECT_FALSE(far.place(DType::kF32, {1, 3}, 0, gaps));
  EXPECT_FALSE(far.place(DType::kF32, {0, 3}, 0, gaps));
  EXPECT_FALSE(far.place(DType::kF32, {3, 0}, 0, gaps));
  EXPECT_FALSE(far.place(DType::kF32, {2050, 1}, 0, gaps));
  EXPECT_FALSE(far.place(DType::kF32, {2, Index{1} << 20}, 0, gaps));
  EXPECT_TRUE(gaps.empty());
}

TEST(FarMemory, ClearedMemoryIsFreeAgain) {
  FarMemory far;
  for (int round = 0; round < 3; ++round) {
    std::vector<View> gaps;
    const auto view = far.place(DType::kF64, {2, 300000}, 0, gaps);
    ASSERT_TRUE(view);
    EXPECT_FALSE(far.place(DType::kF64, {2, 300000}, 0, gaps));
    far.clear();
  }
}

}  // namespace
}  // namespace shardproof
