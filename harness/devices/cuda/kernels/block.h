// What kernels are written in. A kernel is a plain struct of its arguments; its operator()(block)
// is what every thread of every block does, over a Block that says which thread it is:
//
//   Index index(), count()    of the blocks of the launch
//   int thread(), threads()   of the block; a power of two
//   void barrier()            all threads of the block, or none; only where Kernel::kMeets
//   shared<T>()               get(i), set(i, value) for an element a thread, which all see
//
// The same source runs on a GPU (launch.h) and on the CPU (block_executor.h). Results depend on the
// number of threads, which a side fixes, and not on that of blocks.
#pragma once

#include <cmath>
#include <limits>

#include "harness/model/shape.h"

#ifdef __CUDACC__
#define SHARDPROOF_KERNEL __device__
#else
#define SHARDPROOF_KERNEL
#endif

namespace shardproof::kernels {

template <typename T>
SHARDPROOF_KERNEL constexpr T infinity() {
  return std::numeric_limits<T>::infinity();
}

// Calls visit(i) for this thread's share of [0, count), whichever block it is in.
template <class Block, class Visit>
SHARDPROOF_KERNEL void for_all(Block& block, Index count, Visit visit) {
  const Index step = block.count() * block.threads();
  for (Index i = block.index() * block.threads() + block.thread(); i < count; i += step) visit(i);
}

// Calls visit(i, j) for this thread's share of the elements of a matrix, row by row.
template <class Block, class Visit>
SHARDPROOF_KERNEL void for_elements(Block& block, Index rows, Index columns, Visit visit) {
  for_all(block, rows * columns, [&](Index flat) {
    const Index row = flat / columns;
    visit(row, flat - row * columns);
  });
}

// Calls visit(i) for this thread's share of [0, count) within its block.
template <class Block, class Visit>
SHARDPROOF_KERNEL void for_mine(Block& block, Index count, Visit visit) {
  for (Index i = block.thread(); i < count; i += block.threads()) visit(i);
}

// Calls visit(row) for the rows of this block: all its threads, for the same rows.
template <class Block, class Visit>
SHARDPROOF_KERNEL void for_rows(Block& block, Index rows, Visit visit) {
  for (Index row = block.index(); row < rows; row += block.count()) visit(row);
}

struct Sum {
  template <typename T>
  SHARDPROOF_KERNEL T operator()(T a, T b) const {
    return a + b;
  }
};

// NaN when one of them is.
struct Largest {
  template <typename T>
  SHARDPROOF_KERNEL T operator()(T a, T b) const {
    return a != a || a > b ? a : b;
  }
};

// All threads' values combined as a tree, the same for all of them.
template <class Block, typename T, class Combine>
SHARDPROOF_KERNEL T over_block(Block& block, T mine, Combine combine) {
  auto shared = block.template shared<T>();
  const int thread = block.thread();
  shared.set(thread, mine);
  block.barrier();
  for (int half = block.threads() / 2; half > 0; half /= 2) {
    if (thread < half) shared.set(thread, combine(shared.get(thread), shared.get(thread + half)));
    block.barrier();
  }
  const T all = shared.get(0);
  block.barrier();  // before the memory serves again
  return all;
}

}  // namespace shardproof::kernels
