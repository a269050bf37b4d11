// SimGroup: the ranks that differ along one axis, and the collective they are in. As a collective
// blocks its caller, a group is in one at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/carrier.h"

namespace shardproof {

class SimRank;

// A member's part in the collective in progress.
struct SimCall : CollectiveCall {
  SimRank* rank = nullptr;
  double posted = 0;
  bool arrived = false;
};

struct SimGroup {
  std::string axis;
  int axis_index = 0;        // of the mesh, or beyond it for an axis that the mesh does not have
  std::vector<int> members;  // global ranks, by coordinate

  std::vector<int> carried;  // the group's number for each member's carrier, where they have one

  std::vector<SimCall> calls;  // of the collective in progress, by position
  int arrived = 0;
  std::uint64_t completed = 0;  // collectives so far
  double completed_at = 0;      // virtual end of the last one

  int size() const { return static_cast<int>(members.size()); }
  int position_of(int rank) const {
    return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
  }
  // `carriers` of the members, which have one in common from now on.
  void join_carriers(const std::vector<Carrier*>& carriers) {
    carried.clear();
    const Carrier::GroupId id = carriers[0]->make_id();
    carriers[0]->together([&] {
      for (Carrier* carrier : carriers) {
        carried.push_back(carrier->join(id, size(), static_cast<int>(carried.size())));
      }
    });
  }
  // Before a case.
  void begin() {
    calls.assign(members.size(), SimCall{});
    arrived = 0;
  }
};

}  // namespace shardproof
