// Scheduler: runs the ranks of one case as fibers in the calling thread. Which of the runnable
// ranks goes next, and every other choice left open to a world, is a function of the schedule's
// number.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "harness/run/fiber.h"

namespace shardproof {

// The choices. Schedule 0 is the plainest: sends are buffered and read at once, ranks take turns.
// Schedule 1 is the strictest: every send waits for its receiver and is read as late as possible.
// All others mix the two at random, and no send at all is buffered in every fourth of them: a large
// ring that needs buffering is saved by a single buffered send.
class Schedule {
 public:
  explicit Schedule(std::uint64_t number = 0);

  bool send_is_buffered();
  bool send_is_read_late();
  bool pauses_here();  // whether the rank lets others go first

  // Which of `count` waiting ranks, oldest first, goes next.
  std::size_t next_of(std::size_t count);

 private:
  std::uint64_t draw();

  std::uint64_t number_;
  std::uint64_t state_;
  std::uint64_t buffered_quarters_ = 0;  // how many of four sends are buffered
};

class Scheduler {
 public:
  // Thrown into the ranks that are left when a run ends early.
  struct Unwind {};

  // Runs body(rank) for every rank until all have ended, stop() was called, or none can go on;
  // then unwinds what is left. Returns whether every rank ended by itself. `stuck` is called
  // before unwinding when no rank can go on.
  bool run(int ranks, std::uint64_t schedule, const std::function<void(int)>& body,
           const std::function<void()>& stuck);

  // The following are called by the rank that runs.
  void block();              // until another rank calls wake(); throws Unwind
  void wake(int rank);       // a blocked rank
  void pause();              // lets others go first when the schedule says so; throws Unwind
  [[noreturn]] void stop();  // ends the run

  // Whether a destructor called us while its rank is being unwound: then it must not throw.
  bool is_unwinding() const { return stopping_ && std::uncaught_exceptions() > 0; }

  Schedule& schedule() { return schedule_; }
  bool has_ended(int rank) const { return slots_[static_cast<std::size_t>(rank)]->ended; }

 private:
  struct Slot {
    Scheduler* scheduler = nullptr;
    int rank = 0;
    bool started = false;
    bool ended = false;
    Fiber fiber;
  };
  static void body_of(void* slot);
  void resume(Slot& slot);
  void suspend();
  void unwind(int ranks);

  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<int> ready_;  // runnable ranks, oldest first from oldest_ on
  std::size_t oldest_ = 0;
  Schedule schedule_;
  const std::function<void(int)>* body_ = nullptr;
  int current_ = -1;
  int ended_ = 0;
  bool stopping_ = false;
};

}  // namespace shardproof
