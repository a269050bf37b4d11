#include "harness/run/memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

namespace shardproof {
namespace {

TEST(Memory, PoisonIsNanThatNoArithmeticOrConversionYields) {
  Memory memory;
  for (DType type : all_dtypes()) {
    Tensor tensor = memory.allocate("", type, {3});
    EXPECT_TRUE(std::isnan(tensor.view().at(1)));
    EXPECT_EQ(Memory::first_unwritten(tensor), 0);
    const volatile double one = 1;
    tensor.view().put(0, tensor.view().at(0) + one);
    tensor.view().put(1, std::nan("") * one);
    EXPECT_EQ(Memory::first_unwritten(tensor), 2) << format(type).name;
    tensor.view().put(2, 0);
    EXPECT_EQ(Memory::first_unwritten(tensor), -1);
  }
}

TEST(Memory, RecycledBlocksArePoisonedAgain) {
  Memory memory;
  std::set<const std::byte*> blocks;
  for (int i = 0; i < 100; ++i) {
    Tensor tensor = memory.allocate("", DType::kF32, {10 + i % 20});
    blocks.insert(tensor.view().data);
    EXPECT_EQ(Memory::first_written(tensor), -1);
    for (Index e = 0; e < tensor.view().elements(); ++e) tensor.view().put(e, 1);
  }
  EXPECT_EQ(blocks.size(), 1u);
}

TEST(Memory, FirstUnwrittenWorksOnStridedViews) {
  Memory memory;
  Tensor tensor = memory.allocate("", DType::kBf16, {4, 3});
  const View column = tensor.view().slice(1, 1, 1);
  for (Index i : {0, 1, 3}) column.put(i, 0);
  EXPECT_EQ(Memory::first_unwritten(column), 2);
  EXPECT_EQ(Memory::first_written(column), 0);
  column.put(2, 0);
  EXPECT_EQ(Memory::first_unwritten(column), -1);
  EXPECT_EQ(Memory::first_unwritten(tensor), 0);
  Memory::poison(column);
  EXPECT_EQ(Memory::first_written(tensor), -1);
}

TEST(Memory, EveryGuardByteOnBothSidesIsChecked) {
  Memory memory;
  for (std::size_t i = 0; i < kGuardBytes; ++i) {
    for (bool before : {false, true}) {
      {
        Tensor tensor = memory.allocate("work", DType::kF32, {5});
        std::byte* data = tensor.view().data;
        EXPECT_TRUE(memory.broken_guards().empty());
        *(before ? data - 1 - i : data + 20 + i) = std::byte{0};
        EXPECT_EQ(memory.broken_guards(), std::vector<std::string>{"work"});
      }
      EXPECT_EQ(memory.broken_guards(), std::vector<std::string>{"work"});
      memory.reset();
    }
  }
}

TEST(Memory, WritingTheTensorItselfBreaksNothing) {
  Memory memory;
  Tensor tensor = memory.allocate("", DType::kF16, {3, 7});
  std::memset(tensor.view().data, 0, tensor.view().bytes());
  EXPECT_TRUE(memory.broken_guards().empty());
}

TEST(Memory, EmptyTensorsAreGuardedToo) {
  Memory memory;
  Tensor tensor = memory.allocate("", DType::kF32, {0, 4});
  EXPECT_EQ(Memory::first_unwritten(tensor), -1);
  *tensor.view().data = std::byte{1};
  EXPECT_EQ(memory.broken_guards(), std::vector<std::string>{"a work tensor [0, 4]"});
}

TEST(Memory, CountsWhatIsAlive) {
  Memory memory;
  Tensor kept = memory.allocate("k", DType::kF32, {10});
  {
    Tensor passing = memory.allocate("", DType::kF64, {10});
    memory.mark_received(passing.view().slice(0, 3, 2));
  }
  Tensor late = memory.allocate("", DType::kF32, {15});
  memory.mark_received(late);
  EXPECT_EQ(memory.peak_bytes(), 120);
  EXPECT_EQ(memory.peak_received_bytes(), 80);
  memory.mark_received(kept);
  EXPECT_EQ(memory.peak_received_bytes(), 100);
  EXPECT_EQ(memory.owner(kept.view().data + 39), "k");
  EXPECT_EQ(memory.owner(late.view().data), "a work tensor [15]");
  EXPECT_FALSE(memory.owns(kept.view().data + 40));
  kept = Tensor();
  late = Tensor();
  memory.reset();
  EXPECT_EQ(memory.peak_bytes(), 0);
}

}  // namespace
}  // namespace shardproof
