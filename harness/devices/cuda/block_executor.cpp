#include "harness/devices/cuda/block_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string_view>

#include "harness/model/require.h"

namespace shardproof {
namespace {

std::string text(std::source_location place) {
  const std::string_view path = place.file_name();
  return fmt::format("{}:{}", path.substr(path.rfind('/') + 1), place.line());
}

bool same(std::source_location a, std::source_location b) {
  return a.line() == b.line() && a.column() == b.column() &&
         std::string_view(a.file_name()) == b.file_name();
}

}  // namespace

struct BlockExecutor::Thread {
  BlockExecutor* executor = nullptr;
  int number = 0;
  std::source_location barrier;  // that it waits at, unless it has ended
  Fiber fiber;
};

BlockExecutor::BlockExecutor() = default;
BlockExecutor::~BlockExecutor() = default;

std::string BlockExecutor::run_blocks(const void* kernel, Body body, Index blocks, int threads,
                                      bool meets) {
  require(threads > 0 && threads <= kMostThreads && std::has_single_bit(unsigned(threads)),
          "a block has a power of two of threads");
  kernel_ = kernel;
  body_ = body;
  blocks_ = blocks;
  block_threads_ = threads;
  meets_ = meets;
  fault_.clear();
  for (block_ = 0; block_ < blocks && fault_.empty(); ++block_) {
    if (meets) {
      run_block(threads);
      continue;
    }
    for (int number = 0; number < threads && fault_.empty(); ++number) {
      Block block(*this, number);
      try {
        body(kernel, block);
      } catch (const Unwind&) {  // the fault is noted
      }
    }
  }
  return fault_;
}

void BlockExecutor::run_block(int threads) {
  while (static_cast<int>(threads_.size()) < threads) {
    threads_.push_back(std::make_unique<Thread>());
    threads_.back()->executor = this;
    threads_.back()->number = static_cast<int>(threads_.size()) - 1;
  }
  shared_.assign(static_cast<std::size_t>(threads), {});
  for (int number = 0; number < threads; ++number) start(*threads_[std::size_t(number)]);
  do {
    ++barriers_;
    for (int number = 0; number < threads; ++number) {
      Fiber& fiber = threads_[std::size_t(number)]->fiber;
      if (!fiber.ended()) fiber.resume();
    }
  } while (all_met(threads));
  for (int number = 0; number < threads; ++number) {  // after a fault
    Fiber& fiber = threads_[std::size_t(number)]->fiber;
    while (!fiber.ended()) fiber.resume();
  }
}

void BlockExecutor::start(Thread& thread) {
  const auto body = [](void* argument) {
    Thread& self = *static_cast<Thread*>(argument);
    Block block(*self.executor, self.number);
    try {
      self.executor->body_(self.executor->kernel_, block);
    } catch (const Unwind&) {  // the fault is noted
    }
  };
  thread.fiber.start(body, &thread);
}

// Whether all threads wait, at one barrier. Notes a fault when only some do.
bool BlockExecutor::all_met(int threads) {
  if (!fault_.empty()) return false;
  const Thread* waiting = nullptr;
  const Thread* ended = nullptr;
  for (int number = 0; number < threads; ++number) {
    const Thread& thread = *threads_[std::size_t(number)];
    if (thread.fiber.ended()) {
      ended = &thread;
    } else if (waiting != nullptr && !same(waiting->barrier, thread.barrier)) {
      fail(fmt::format("threads {} and {} wait at different barriers, {} and {}", waiting->number,
                       number, text(waiting->barrier), text(thread.barrier)));
      return false;
    } else {
      waiting = &thread;
    }
  }
  if (waiting != nullptr && ended != nullptr) {
    fail(fmt::format("thread {} waits at a barrier, {}, that thread {} never reaches",
                     waiting->number, text(waiting->barrier), ended->number));
    return false;
  }
  return waiting != nullptr;
}

void BlockExecutor::wait(int thread, std::source_location place) {
  if (!meets_) {
    fail("a barrier, " + text(place) + ", in a kernel that says it has none");
    throw Unwind();
  }
  Thread& self = *threads_[std::size_t(thread)];
  self.barrier = place;
  self.fiber.suspend();
  if (!fault_.empty()) throw Unwind();
}

void BlockExecutor::note_read(std::size_t element, int thread, std::source_location place) {
  if (element >= shared_.size()) {
    fail(fmt::format("{} reads beyond shared memory, element {}", text(place), element));
    throw Unwind();
  }
  Element& used = shared_[element];
  if (used.writer == kNobody) {
    fail(fmt::format("{} reads shared element {}, which nobody has written", text(place), element));
    throw Unwind();
  }
  if (used.written_after == barriers_ && used.writer != thread) {
    fail(
        fmt::format("{}: thread {} reads shared element {}, which thread {} wrote since the last "
                    "barrier",
                    text(place), thread, element, used.writer));
    throw Unwind();
  }
  const bool first = used.read_after != barriers_;
  used.reader = first || used.reader == thread ? thread : kSeveral;
  used.read_after = barriers_;
}

void BlockExecutor::note_write(std::size_t element, int thread, std::source_location place) {
  if (element >= shared_.size()) {
    fail(fmt::format("{} writes beyond shared memory, element {}", text(place), element));
    throw Unwind();
  }
  Element& used = shared_[element];
  const bool written = used.written_after == barriers_ && used.writer != thread;
  const bool read = used.read_after == barriers_ && used.reader != thread;
  if (written || read) {
    fail(
        fmt::format("{}: thread {} writes shared element {}, which another thread {} since the "
                    "last barrier",
                    text(place), thread, element, written ? "wrote" : "read"));
    throw Unwind();
  }
  used.writer = thread;
  used.written_after = barriers_;
}

// The first fault counts.
void BlockExecutor::fail(std::string what) {
  if (fault_.empty()) fault_ = fmt::format("block {}: {}", block_, what);
}

}  // namespace shardproof
