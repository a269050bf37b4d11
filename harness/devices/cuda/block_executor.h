// BlockExecutor: runs a kernel (kernels/block.h) on the CPU as blocks of cooperative threads, one
// fiber each where they meet at barriers. Finds barriers that not all threads of a block reach or
// that differ in place, and shared memory that two threads use between barriers, one of them
// writing, or that is read before it is written. Blocks run one after another: what they do to each
// other in global memory is not looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "harness/model/shape.h"
#include "harness/run/fiber.h"

namespace shardproof {

class BlockExecutor {
 public:
  static constexpr int kMostThreads = 1024;

  // Runs all blocks; `threads` is a power of two. What was wrong first, with its place, or an empty
  // string; then the rest of the launch is left out.
  template <class Kernel>
  std::string run(const Kernel& kernel, Index blocks, int threads);

 private:
  template <typename T>
  class Shared;
  class Block;
  struct Thread;

  // Who used an element of shared memory since the last barrier.
  struct Element {
    std::uint64_t bits = 0;
    std::uint64_t written_after = kNever;  // which barrier
    std::uint64_t read_after = kNever;
    int writer = kNobody;
    int reader = kNobody;  // kSeveral: more than one
  };
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  static constexpr int kNobody = -1;
  static constexpr int kSeveral = -2;

  struct Unwind {};  // ends the threads of a block that is given up

  using Body = void (*)(const void* kernel, Block& block);
  std::string run_blocks(const void* kernel, Body body, Index blocks, int threads, bool meets);
  void run_block(int threads);
  bool all_met(int threads);
  void start(Thread& thread);
  void wait(int thread, std::source_location place);
  void note_read(std::size_t element, int thread, std::source_location place);
  void note_write(std::size_t element, int thread, std::source_location place);
  void fail(std::string what);

  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Element> shared_;
  const void* kernel_ = nullptr;
  Body body_ = nullptr;
  Index block_ = 0;
  Index blocks_ = 0;
  int block_threads_ = 0;
  bool meets_ = false;
  std::uint64_t barriers_ = 0;  // passed so far, in all blocks
  std::string fault_;

 public:
  BlockExecutor();
  ~BlockExecutor();
};

// What a kernel sees.
class BlockExecutor::Block {
 public:
  Block(BlockExecutor& executor, int thread) : executor_(executor), thread_(thread) {}

  Index index() const { return executor_.block_; }
  Index count() const { return executor_.blocks_; }
  int thread() const { return thread_; }
  int threads() const { return executor_.block_threads_; }
  void barrier(std::source_location place = std::source_location::current()) {
    executor_.wait(thread_, place);
  }
  template <typename T>
  Shared<T> shared() {
    return {executor_, thread_};
  }

 private:
  BlockExecutor& executor_;
  int thread_;
};

template <typename T>
class BlockExecutor::Shared {
 public:
  Shared(BlockExecutor& executor, int thread) : executor_(executor), thread_(thread) {}

  T get(int i, std::source_location place = std::source_location::current()) const {
    executor_.note_read(static_cast<std::size_t>(i), thread_, place);
    T value;
    std::memcpy(&value, &executor_.shared_[static_cast<std::size_t>(i)].bits, sizeof value);
    return value;
  }
  void set(int i, T value, std::source_location place = std::source_location::current()) {
    executor_.note_write(static_cast<std::size_t>(i), thread_, place);
    std::memcpy(&executor_.shared_[static_cast<std::size_t>(i)].bits, &value, sizeof value);
  }

 private:
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  BlockExecutor& executor_;
  int thread_;
};

template <class Kernel>
std::string BlockExecutor::run(const Kernel& kernel, Index blocks, int threads) {
  const Body body = [](const void* arguments, Block& block) {
    (*static_cast<const Kernel*>(arguments))(block);
  };
  return run_blocks(&kernel, body, blocks, threads, Kernel::kMeets);
}

}  // namespace shardproof
