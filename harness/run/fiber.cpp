#include "harness/run/fiber.h"

#include <cxxabi.h>

#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstring>
#include <memory>
#include <utility>

#include "harness/model/require.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace shardproof {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kStackBytes = 1024 * 1024;  // instrumented frames are several times larger
#else
constexpr std::size_t kStackBytes = 256 * 1024;
#endif

}  // namespace

Fiber::Fiber() {
  boost::context::protected_fixedsize_stack allocator(kStackBytes);
  const boost::context::stack_context stack = allocator.allocate();
  stack_size_ = stack.size;
  stack_bottom_ = static_cast<const std::byte*>(stack.sp) - stack.size;
  inside_ = boost::context::fiber(
      std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack), allocator,
      [this](boost::context::fiber&& caller) { return loop(std::move(caller)); });
#ifdef __SANITIZE_THREAD__
  saved_inside_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
  require(ended(), "a fiber ends before it is destroyed");
  quit_ = true;
  resume();
#ifdef __SANITIZE_THREAD__
  __tsan_destroy_fiber(saved_inside_);
#endif
}

void Fiber::start(void (*body)(void*), void* argument) {
  require(ended(), "a fiber runs one body at a time");
  body_ = body;
  argument_ = argument;
}

void Fiber::resume() {
  swap_exceptions();
#ifdef __SANITIZE_THREAD__
  saved_outside_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(saved_inside_, 0);
#endif
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&saved_outside_, stack_bottom_, stack_size_);
#endif
  inside_ = std::move(inside_).resume();
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(saved_outside_, nullptr, nullptr);
#endif
  swap_exceptions();
}

// The runtime keeps the exceptions being handled per thread: a fiber that stops inside a handler
// takes its own along.
void Fiber::swap_exceptions() {
  void* current = abi::__cxa_get_globals();
  ExceptionState other = exceptions_;
  std::memcpy(&exceptions_, current, sizeof exceptions_);
  std::memcpy(current, &other, sizeof other);
}

void Fiber::suspend() {
  leave(false);
  caller_ = std::move(caller_).resume();
  enter();
}

boost::context::fiber Fiber::loop(boost::context::fiber&& caller) {
  enter();
  caller_ = std::move(caller);
  while (!quit_) {
    body_(argument_);
    body_ = nullptr;
    suspend();
  }
  leave(true);
  return std::move(caller_);
}

// Tells the sanitizers that the fiber's stack is now the current one.
void Fiber::enter() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(saved_inside_, &caller_bottom_, &caller_size_);
#endif
}

// Tells them that the caller's stack will be. Not instrumented: it would enter on one stack and
// return on the other.
[[gnu::no_sanitize("thread")]] void Fiber::leave([[maybe_unused]] bool for_good) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(for_good ? nullptr : &saved_inside_, caller_bottom_, caller_size_);
#endif
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(saved_outside_, 0);
#endif
}

}  // namespace shardproof
