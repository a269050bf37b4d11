#include "harness/worlds/scheduler.h"

#include <utility>

#include "harness/model/element.h"
#include "harness/model/require.h"
#include "harness/run/whereabouts.h"

namespace shardproof {

Schedule::Schedule(std::uint64_t number) : number_(number), state_(number) {
  if (number_ > 1) buffered_quarters_ = draw() % 4;
}

std::uint64_t Schedule::draw() {
  state_ += 0x9e3779b97f4a7c15u;
  return mix(state_);
}

bool Schedule::send_is_buffered() {
  return number_ == 0 || (number_ > 1 && draw() % 4 < buffered_quarters_);
}

bool Schedule::send_is_read_late() { return number_ == 1 || (number_ > 1 && draw() % 2 == 0); }

bool Schedule::pauses_here() { return number_ > 1 && draw() % 4 == 0; }

std::size_t Schedule::next_of(std::size_t count) {
  return number_ > 1 ? static_cast<std::size_t>(draw() % count) : 0;
}

bool Scheduler::run(int ranks, std::uint64_t schedule, const std::function<void(int)>& body,
                    const std::function<void()>& stuck) {
  while (slots_.size() < static_cast<std::size_t>(ranks)) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->scheduler = this;
    slots_.back()->rank = static_cast<int>(slots_.size()) - 1;
  }
  schedule_ = Schedule(schedule);
  body_ = &body;
  stopping_ = false;
  ended_ = 0;
  ready_.clear();
  oldest_ = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    ready_.push_back(rank);
    slots_[static_cast<std::size_t>(rank)]->started = false;
    slots_[static_cast<std::size_t>(rank)]->ended = false;
  }
  while (!stopping_ && oldest_ < ready_.size()) {
    const std::size_t chosen = oldest_ + schedule_.next_of(ready_.size() - oldest_);
    const int rank = std::exchange(ready_[chosen], ready_[oldest_]);
    ++oldest_;
    if (oldest_ * 2 > ready_.size() && oldest_ > 64) {
      ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(oldest_));
      oldest_ = 0;
    }
    resume(*slots_[static_cast<std::size_t>(rank)]);
  }
  if (!stopping_ && ended_ == ranks) return true;
  if (!stopping_) stuck();
  unwind(ranks);
  return false;
}

void Scheduler::unwind(int ranks) {
  stopping_ = true;
  for (int rank = 0; rank < ranks; ++rank) {
    Slot& slot = *slots_[static_cast<std::size_t>(rank)];
    // A body that swallows the exception meets it again at its next wait.
    while (slot.started && !slot.ended) resume(slot);
  }
}

void Scheduler::resume(Slot& slot) {
  if (!slot.started) {
    slot.started = true;
    slot.fiber.start(&Scheduler::body_of, &slot);
  }
  current_ = slot.rank;
  note_rank(current_);
  slot.fiber.resume();
  current_ = -1;
  note_rank(current_);
}

void Scheduler::body_of(void* argument) {
  Slot& slot = *static_cast<Slot*>(argument);
  try {
    (*slot.scheduler->body_)(slot.rank);
  } catch (const Unwind&) {
    // The run has ended; this rank's destructors have run.
  }
  slot.ended = true;
  ++slot.scheduler->ended_;
}

void Scheduler::suspend() {
  slots_[static_cast<std::size_t>(current_)]->fiber.suspend();
  if (stopping_) throw Unwind{};
}

void Scheduler::block() {
  if (stopping_) throw Unwind{};
  suspend();
}

void Scheduler::wake(int rank) { ready_.push_back(rank); }

void Scheduler::pause() {
  if (stopping_) throw Unwind{};
  if (!schedule_.pauses_here()) return;
  wake(current_);
  suspend();
}

void Scheduler::stop() {
  stopping_ = true;
  throw Unwind{};
}

}  // namespace shardproof
