// RankLog: one rank's virtual clock and what it communicated. The clock is the time spent waiting
// for communication plus the device's time; as all sends are timed as if buffered, it depends on
// the program alone and not on the schedule.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/run/device.h"
#include "harness/run/trace.h"
#include "harness/run/world.h"

namespace shardproof {

class RankLog {
 public:
  // Forgets the case before.
  void begin(int rank, Device& device, const RunOptions& options);

  double now() const { return waited_seconds_ + compute_seconds(); }
  void advance_to(double time);

  // When a transfer that is posted now arrives. The transfers of one axis queue for its link.
  double arrival(int axis_index, std::size_t bytes);

  // Notes an operation posted now; complete() wants the number that it returns.
  std::size_t record(std::string_view operation, const std::string& axis, int peer, Index bytes);
  void complete(std::size_t event, double end);

  // " after send (cp axis, forward)", or nothing when there was no communication.
  std::string after_last_event() const;

  RankFacts facts(const Memory& memory) const;
  void move_events_to(Trace& trace);

  Phase phase = Phase::kForward;

 private:
  double compute_seconds() const;

  int rank_ = 0;
  const Meter* meter_ = nullptr;
  RunOptions options_;
  double waited_seconds_ = 0;
  std::vector<double> link_free_;  // when the link of each axis has sent what was posted
  std::vector<Event> events_;
  std::vector<Traffic> traffic_;
  std::size_t last_ = 0;  // the last operation's place there
};

}  // namespace shardproof
