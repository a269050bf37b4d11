// Collectives of a simulated run: a collective takes place when its last member calls it, all at
// once. Members that disagree about operation, counts, dtype or root end the run.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/worlds/sim_group.h"
#include "harness/worlds/sim_messages.h"
#include "harness/worlds/sim_rank.h"

namespace shardproof {

class Collectives {
 public:
  Collectives(SimRun& run, Messages& messages) : run_(run), messages_(messages) {}

  // The call of `rank`, the member at `position`. Returns when the collective has taken place.
  void join(SimRank& rank, SimGroup& group, int position, const CollectiveCall& call);

 private:
  void check_agreement(const SimGroup& group, int position, const SimCall& call);
  void check_pair(const SimGroup& group, int first, const SimCall& a, int second, const SimCall& b);
  void perform(SimGroup& group);
  void reduce(SimGroup& group);
  void move(SimGroup& group);

  SimRun& run_;
  Messages& messages_;
  std::vector<std::byte> staging_;
};

}  // namespace shardproof
