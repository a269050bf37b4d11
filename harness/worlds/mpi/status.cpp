#include "harness/worlds/mpi/status.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "harness/model/require.h"

namespace shardproof {
namespace {

template <std::size_t kSize>
void copy_text(std::string_view from, std::array<char, kSize>& to) {
  const std::size_t size = std::min(from.size(), kSize - 1);
  std::copy_n(from.begin(), size, to.begin());
  to[size] = '\0';
}

}  // namespace

RankStatus& RankStatus::make() {
  void* memory =
      mmap(nullptr, sizeof(RankStatus), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Error("cannot share memory with a watcher");
  return *new (memory) RankStatus;
}

template <typename Change>
void RankStatus::change(Change change) {
  const std::uint32_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  change(activity_);
  version_.store(version + 2, std::memory_order_release);
}

void RankStatus::begin_run() {
  change([](Activity& activity) {
    const std::int64_t events = activity.events + 1;
    activity = {};
    activity.state = Activity::State::kComputing;
    activity.events = events;
  });
}

void RankStatus::communicate(std::string_view operation, std::string_view axis, Phase phase,
                             int peer, int tag) {
  change([&](Activity& activity) {
    ++activity.events;
    copy_text(operation, activity.operation);
    copy_text(axis, activity.axis);
    activity.phase = phase;
    activity.peer = peer;
    activity.tag = tag;
  });
}

void RankStatus::become(Activity::State state) {
  change([&](Activity& activity) {
    ++activity.events;
    activity.state = state;
  });
}

// A rank that died while it wrote leaves the version odd: what is there must do.
Activity RankStatus::read() const {
  constexpr int kAttempts = 1000;
  Activity activity;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::uint32_t before = version_.load(std::memory_order_acquire);
    activity = activity_;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) break;
  }
  return activity;
}

}  // namespace shardproof
