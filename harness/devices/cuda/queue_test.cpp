#include "harness/devices/cuda/queue.h"

#include <gtest/gtest.h>

#include <vector>

#include "harness/devices/cuda/device.h"
#include "harness/run/memory.h"

namespace shardproof::cuda_double {
namespace {

// to [0] = the sum of `values`
struct Add {
  static constexpr bool kMeets = false;
  const int* values;
  Index count;
  float* to;

  template <class Block>
  void operator()(Block& block) const {
    kernels::for_all(block, 1, [&](Index) {
      *to = 0;
      for (Index i = 0; i < count; ++i) *to += static_cast<float>(values[i]);
    });
  }
};

TEST(Queue, KernelsFindWhatTheCallerHadWhenItAsked) {
  Queue queue;
  std::vector<float> sums(40, -1);
  for (int i = 0; i < 40; ++i) {  // more often than there is staging memory, and ever more of it
    std::vector<int> values(static_cast<std::size_t>(1 + 300 * i), i);
    queue.launch_with(std::span<const int>(values), 1, [&](const int* staged) {
      return Add{staged, static_cast<Index>(values.size()), &sums[static_cast<std::size_t>(i)]};
    });
    values.assign(values.size(), 99);
  }
  EXPECT_EQ(sums[39], -1) << "nobody has waited yet";
  queue.settle();
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(sums[static_cast<std::size_t>(i)], static_cast<float>(i * (1 + 300 * i)));
  }
}

TEST(Queue, ScratchGrowsAndIsKept) {
  Queue queue;
  std::byte* first = queue.scratch(1, 100);
  EXPECT_EQ(queue.scratch(1, 4096), first);
  EXPECT_NE(queue.scratch(0, 100), first);
  std::byte* larger = queue.scratch(1, 4097);
  EXPECT_EQ(queue.scratch(1, 50), larger);
}

TEST(Queue, AStoreThatChangedIsDroppedWithItsBlocks) {
  Memory memory;
  CudaDevice device;
  const std::byte* before = memory.allocate("", DType::kF32, {4}).view().data;
  memory.lie_in(device.store());
  EXPECT_NE(memory.allocate("", DType::kF32, {4}).view().data, before);
  memory.lie_in(nullptr);
  EXPECT_TRUE(memory.allocate("", DType::kF32, {4}));
}

TEST(Queue, ATensorIsPoisonedAfterTheWorkOfTheOneThatLayThere) {
  CudaDevice device;
  Memory memory;
  memory.lie_in(device.store());
  const std::byte* place = nullptr;
  {
    const Tensor tensor = memory.allocate("", DType::kF32, {64});
    place = tensor.view().data;
    device.settle();
    EXPECT_EQ(Memory::first_written(tensor), -1);
    device.fill(tensor, 1);
    EXPECT_EQ(Memory::first_unwritten(tensor), 0) << "nobody has waited yet";
  }
  const Tensor again = memory.allocate("", DType::kF32, {64});
  ASSERT_EQ(again.view().data, place);
  EXPECT_EQ(Memory::first_written(again), -1) << "still nobody: neither filled nor poisoned again";
  device.settle();
  EXPECT_EQ(Memory::first_written(again), -1);
}

TEST(Queue, WorkThatWritesBesideItsTensorIsFoundAfterThatDied) {
  CudaDevice device;
  Memory memory;
  memory.lie_in(device.store());
  for (Index length : {5, 64, 3}) {  // the next one lies where the last one did
    const Tensor tensor = memory.allocate(length == 64 ? "short" : "", DType::kBf16, {length});
    View longer = tensor.view();
    if (length != 3) longer.shape[0] = length + 1;
    device.fill(longer, 1);
  }
  const Tensor alive = memory.allocate("alive", DType::kF64, {3});
  View before = alive.view();
  before.data -= sizeof(double);
  device.fill(before, 1);
  const std::vector<std::string> want{"a work tensor [5]", "short", "alive"};
  EXPECT_EQ(memory.broken_guards(), want);
}

TEST(Queue, WhatWasBrokenBeforeIsForgotten) {
  CudaDevice device;
  Memory memory;
  memory.lie_in(device.store());
  {
    const Tensor tensor = memory.allocate("short", DType::kF32, {4});
    View longer = tensor.view();
    longer.shape[0] = 5;
    device.fill(longer, 1);
  }
  memory.reset();
  EXPECT_EQ(memory.broken_guards(), std::vector<std::string>{});
  for (int i = 0; i < 100; ++i) {  // more than are named
    const Tensor tensor = memory.allocate("short", DType::kF32, {4});
    View longer = tensor.view();
    longer.shape[0] = 5;
    device.fill(longer, 1);
  }
  EXPECT_EQ(memory.broken_guards().size(), BrokenGuards::kMost);
}

TEST(Queue, AMatrixProductWaitsForNobodyAndComesInOrder) {
  CudaDevice device;
  Memory memory;
  memory.lie_in(device.store());
  const Tensor a = memory.allocate("", DType::kF32, {2, 3});
  const Tensor b = memory.allocate("", DType::kF32, {3, 2});
  const Tensor c = memory.allocate("", DType::kF32, {2, 2});
  device.settle();
  device.fill(a, 2), device.fill(b, 5);
  device.gemm(a, b, c, {});
  device.fill(a, 100);
  EXPECT_EQ(Memory::first_unwritten(c), 0);
  device.settle();
  for (Index i = 0; i < 4; ++i) EXPECT_EQ(c.view().at(i), 30);
}

}  // namespace
}  // namespace shardproof::cuda_double
