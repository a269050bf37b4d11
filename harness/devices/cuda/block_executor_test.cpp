#include "harness/devices/cuda/block_executor.h"

#include <gtest/gtest.h>

#include <numeric>

#include "harness/devices/cuda/kernels/block.h"

namespace shardproof {
namespace {

using kernels::for_rows;
using kernels::over_block;

// sums [blocks] of [blocks, columns]
struct RowSums {
  static constexpr bool kMeets = true;
  const double* from;
  double* sums;
  Index rows;
  Index columns;

  template <class Block>
  void operator()(Block& block) const {
    for_rows(block, rows, [&](Index row) {
      double mine = 0;
      kernels::for_mine(block, columns, [&](Index j) { mine += from[row * columns + j]; });
      const double sum = over_block(block, mine, kernels::Sum());
      if (block.thread() == 0) sums[row] = sum;
    });
  }
};

TEST(BlockExecutor, ThreadsOfABlockMeetAndAdd) {
  BlockExecutor executor;
  std::vector<double> from(7 * 37);
  std::iota(from.begin(), from.end(), 1);
  for (int threads : {1, 2, 8, 64}) {
    for (Index blocks : {1, 3, 7, 9}) {
      std::vector<double> sums(7, -1);
      ASSERT_EQ(executor.run(RowSums{from.data(), sums.data(), 7, 37}, blocks, threads), "");
      for (int row = 0; row < 7; ++row) {
        EXPECT_EQ(sums[std::size_t(row)], 37 * (row * 37 + 19)) << threads << " threads";
      }
    }
  }
}

// Kernels that are wrong, each in one way. All would look right on a block of one thread.
enum class Fault {
  kNone,
  kNoBarrierBeforeReading,
  kNoBarrierBeforeReuse,
  kAllWriteOneElement,
  kBarrierForSome,
  kBarrierInBothBranches,
  kReadsWhatNobodyWrote,
  kBeyondTheEnd,
  kEndsEarly,
};

struct Faulty {
  static constexpr bool kMeets = true;
  Fault fault;
  int* sum;

  template <class Block>
  void operator()(Block& block) const {
    auto shared = block.template shared<int>();
    const int thread = block.thread();
    const int next = (thread + 1) % block.threads();
    if (fault == Fault::kEndsEarly && thread == 1) return;
    if (fault != Fault::kReadsWhatNobodyWrote || thread != 2) shared.set(thread, thread);
    if (fault == Fault::kAllWriteOneElement) shared.set(0, thread);
    if (fault != Fault::kNoBarrierBeforeReading) block.barrier();
    const int neighbour = shared.get(fault == Fault::kBeyondTheEnd ? thread + 1 : next);
    if (fault == Fault::kBarrierForSome && thread % 2 == 0) block.barrier();
    if (fault == Fault::kBarrierInBothBranches) {
      if (thread % 2 == 0) {
        block.barrier();
      } else {
        block.barrier();
      }
    }
    if (fault != Fault::kNoBarrierBeforeReuse) block.barrier();
    shared.set(thread, neighbour);
    block.barrier();
    if (thread == 0) {
      for (int i = 0; i < block.threads(); ++i) *sum += shared.get(i);
    }
  }
};

TEST(BlockExecutor, FindsEveryFault) {
  const std::vector<std::pair<Fault, std::string>> cases{
      {Fault::kNoBarrierBeforeReading, "which nobody has written"},  // by luck of the order
      {Fault::kNoBarrierBeforeReuse, "which another thread read since the last barrier"},
      {Fault::kAllWriteOneElement, "which another thread wrote since the last barrier"},
      {Fault::kBarrierForSome, "wait at different barriers"},
      {Fault::kBarrierInBothBranches, "wait at different barriers"},
      {Fault::kReadsWhatNobodyWrote, "shared element 2, which nobody has written"},
      {Fault::kBeyondTheEnd, "reads beyond shared memory, element 4"},
      {Fault::kEndsEarly, "that thread 1 never reaches"},
  };
  BlockExecutor executor;
  int sum = 0;
  ASSERT_EQ(executor.run(Faulty{Fault::kNone, &sum}, 1, 4), "");
  EXPECT_EQ(sum, 6);
  for (const auto& [fault, says] : cases) {
    const std::string found = executor.run(Faulty{fault, &sum}, 2, 4);
    EXPECT_NE(found.find(says), std::string::npos) << found;
    EXPECT_EQ(found.find("block 0: "), 0u) << found;
    sum = 0;
    EXPECT_EQ(executor.run(Faulty{Fault::kNone, &sum}, 1, 4), "") << "after " << found;
    EXPECT_EQ(sum, 6);
  }
}

struct Late {
  static constexpr bool kMeets = true;

  template <class Block>
  void operator()(Block& block) const {
    auto shared = block.template shared<int>();
    shared.set(block.thread(), 1);
    block.barrier();
    if (block.thread() == 3) shared.set(3, 2);
    if (block.thread() == 0 && block.index() == 1) shared.set(3, 3);
    block.barrier();
  }
};

TEST(BlockExecutor, NamesTheBlockAndThePlace) {
  const std::string found = BlockExecutor().run(Late(), 3, 4);
  EXPECT_EQ(found.find("block 1: block_executor_test.cpp:"), 0u) << found;
  EXPECT_NE(found.find("thread 3 writes shared element 3, which another thread wrote"),
            std::string::npos)
      << found;
}

struct Unannounced {
  static constexpr bool kMeets = false;

  template <class Block>
  void operator()(Block& block) const {
    block.barrier();
  }
};

TEST(BlockExecutor, FindsABarrierInAKernelThatSaysItHasNone) {
  const std::string found = BlockExecutor().run(Unannounced(), 1, 2);
  EXPECT_NE(found.find("in a kernel that says it has none"), std::string::npos) << found;
}

}  // namespace
}  // namespace shardproof
