// RankStatus: what a rank is at, in memory that it shares with its watcher. One writes, one reads;
// the reader never sees half of a change.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "harness/worlds/mpi_record.h"

namespace shardproof {

class RankStatus {
 public:
  // Shared with the processes forked from here on.
  static RankStatus& make();

  // Set once, before the rank says that it is ready.
  std::atomic<int> rank{-1};
  std::atomic<int> ranks{0};

  // The rank's side. A peer below 0: a collective.
  void begin_run();
  void communicate(std::string_view operation, std::string_view axis, Phase phase, int peer,
                   int tag);
  void become(Activity::State state);

  // The watcher's side.
  Activity read() const;

 private:
  template <typename Change>
  void change(Change change);

  std::atomic<std::uint32_t> version_{0};  // odd: being written
  Activity activity_;
};

}  // namespace shardproof
