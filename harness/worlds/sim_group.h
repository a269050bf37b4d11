// SimGroup: the ranks that differ along one axis, and the collective they are in. As a collective
// blocks its caller, a group is in one at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/run/tensor.h"
#include "harness/run/trace.h"

namespace shardproof {

class SimRank;

// One member's part in a collective. `data` is what the operation's signature calls data or mine.
struct Call {
  std::string_view operation;  // as the trace names it; static storage
  View data;
  std::span<const View> parts;     // all_gather, reduce_scatter: parts; all_to_all: sent
  std::span<const View> received;  // all_to_all
  int root = -1;                   // broadcast
  SimRank* rank = nullptr;
  double posted = 0;
  bool arrived = false;
};

struct SimGroup {
  std::string axis;
  int axis_index = 0;        // of the mesh, or beyond it for an axis that the mesh does not have
  std::vector<int> members;  // global ranks, by coordinate

  std::vector<Call> calls;  // of the collective in progress, by position
  int arrived = 0;
  std::uint64_t completed = 0;  // collectives so far
  double completed_at = 0;      // virtual end of the last one

  int size() const { return static_cast<int>(members.size()); }
  int position_of(int rank) const {
    return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
  }
  // Before a case.
  void begin() {
    calls.assign(members.size(), Call{});
    arrived = 0;
  }
};

}  // namespace shardproof
