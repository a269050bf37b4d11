#include "harness/run/tensor.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <vector>

#include "harness/run/memory.h"

namespace shardproof {
namespace {

class ViewTest : public testing::Test {
 protected:
  ViewTest() : values_(24) { std::iota(values_.begin(), values_.end(), 0); }

  View view() { return View::dense(values_.data(), DType::kF64, {2, 3, 4}); }

  std::vector<double> values_;
};

TEST_F(ViewTest, ElementsAreRowMajor) {
  EXPECT_EQ(view().get({1, 2, 3}), 23);
  EXPECT_EQ(view().get({1, 0, 2}), 14);
  EXPECT_EQ(view().at(14), 14);
  EXPECT_EQ(view().elements(), 24);
  EXPECT_EQ(view().bytes(), 192u);
}

TEST_F(ViewTest, SliceAndSelectShareMemory) {
  const View part = view().slice(1, 1, 2);
  EXPECT_EQ(part.shape, (Shape{2, 2, 4}));
  EXPECT_FALSE(part.is_dense());
  EXPECT_EQ(part.get({1, 0, 0}), 16);
  const View row = part.select(0, 1);
  EXPECT_EQ(row.shape, (Shape{2, 4}));
  EXPECT_TRUE(row.is_dense());
  row.set({1, 1}, -5);
  EXPECT_EQ(values_[21], -5);
  EXPECT_EQ(view().select(1, 2).select(1, 0).at(1), 20);
}

TEST_F(ViewTest, TransposedReadsAcross) {
  const View turned = view().transposed(0, 2);
  EXPECT_EQ(turned.shape, (Shape{4, 3, 2}));
  EXPECT_EQ(turned.get({3, 1, 1}), 19);
  EXPECT_EQ(turned.at(1), 12);
  EXPECT_FALSE(turned.is_dense());
  turned.put(1, 7);
  EXPECT_EQ(values_[12], 7);
}

TEST_F(ViewTest, ExtentsOfOneAndEmptyViewsAreDense) {
  EXPECT_TRUE(view().slice(0, 1, 1).is_dense());
  EXPECT_TRUE(view().slice(2, 4, 0).is_dense());
  EXPECT_FALSE(view().slice(2, 0, 1).is_dense());
}

TEST_F(ViewTest, ReshapedNeedsDenseMemoryAndAsManyElements) {
  EXPECT_EQ(view().reshaped({6, 4}).get({5, 3}), 23);
  EXPECT_THROW(view().reshaped({5, 5}), std::out_of_range);
  EXPECT_THROW(view().slice(1, 0, 2).reshaped({16}), std::out_of_range);
}

TEST_F(ViewTest, WhatLiesOutsideThrows) {
  EXPECT_THROW(view().slice(0, 1, 2), std::out_of_range);
  EXPECT_THROW(view().slice(0, -1, 1), std::out_of_range);
  EXPECT_THROW(view().slice(3, 0, 1), std::out_of_range);
  EXPECT_THROW(view().select(1, 3), std::out_of_range);
  EXPECT_THROW(view().transposed(0, 3), std::out_of_range);
  EXPECT_THROW(view().get({0, 3, 0}), std::out_of_range);
  EXPECT_THROW(view().get({0, 0}), std::out_of_range);
  EXPECT_THROW(view().at(24), std::out_of_range);
  EXPECT_THROW(view().put(-1, 0), std::out_of_range);
}

TEST_F(ViewTest, NarrowTypesAreConverted) {
  std::vector<std::uint16_t> bits(2);
  const View narrow = View::dense(bits.data(), DType::kBf16, {2});
  narrow.set({1}, 1 + 0x1p-9);
  EXPECT_EQ(narrow.at(1), 1);
  EXPECT_EQ(bits[1], 0x3f80);
}

TEST_F(ViewTest, SixDimensionsWork) {
  const View six = view().reshaped({1, 2, 1, 3, 2, 2});
  EXPECT_EQ(six.get({0, 1, 0, 2, 1, 0}), 22);
  EXPECT_EQ(six.transposed(1, 5).get({0, 0, 0, 2, 1, 1}), 22);
}

TEST_F(ViewTest, DlpackDescribesTheSameElements) {
  const View turned = view().transposed(1, 2);
  const DLTensor tensor = turned.dlpack();
  EXPECT_EQ(tensor.data, values_.data());
  EXPECT_EQ(tensor.ndim, 3);
  EXPECT_EQ(tensor.shape[1], 4);
  EXPECT_EQ(tensor.strides[1], 1);
  EXPECT_EQ(tensor.strides[2], 4);
  EXPECT_EQ(tensor.dtype.code, kDLFloat);
  EXPECT_EQ(tensor.dtype.bits, 64);
  std::uint16_t bits = 0;
  EXPECT_EQ(View::dense(&bits, DType::kBf16, {1}).dlpack().dtype.code, kDLBfloat);
}

TEST(TensorTest, MovingHandsTheMemoryOver) {
  Memory memory;
  Tensor first = memory.allocate("first", DType::kF32, {4});
  std::byte* data = first.view().data;
  Tensor second = std::move(first);
  EXPECT_EQ(second.view().data, data);
  second = memory.allocate("other", DType::kF32, {4});
  EXPECT_EQ(memory.owner(data), "");
  second = Tensor();
  memory.reset();  // aborts when anything is alive
}

}  // namespace
}  // namespace shardproof
