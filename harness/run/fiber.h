// Fiber: a function that can stop in the middle and go on later, on a stack of its own. Fibers and
// their stacks are reused from case to case, because fresh stacks cost page faults. A fiber is
// resumed only by the thread that made it and must have ended when it is destroyed.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>

namespace shardproof {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Arranges that the next resume() calls body(argument), which must not throw.
  void start(void (*body)(void* argument), void* argument);

  // Runs the fiber until it suspends or its body ends. Called from outside.
  void resume();

  // Goes back to whoever called resume(). Called from inside the body.
  void suspend();

  bool ended() const { return body_ == nullptr; }

 private:
  boost::context::fiber loop(boost::context::fiber&& caller);
  void enter();
  void leave(bool for_good);
  void swap_exceptions();

  // As the Itanium C++ ABI lays out __cxa_eh_globals.
  struct ExceptionState {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };

  boost::context::fiber inside_;  // where the fiber stopped, while it does not run
  boost::context::fiber caller_;  // who resumed it, while it runs
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool quit_ = false;
  ExceptionState exceptions_;  // of whichever side is not running

  // What the sanitizers want to know; unused without them.
  const void* stack_bottom_ = nullptr;
  std::size_t stack_size_ = 0;
  const void* caller_bottom_ = nullptr;
  std::size_t caller_size_ = 0;
  void* saved_outside_ = nullptr;
  void* saved_inside_ = nullptr;
};

}  // namespace shardproof
