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

// target += source, each sum rounded to `type`.
void add_rounded(DType type, std::byte* target, const std::byte* source, Index elements);

class Collectives {
 public:
  Collectives(SimRun& run, Messages& messages) : run_(run), messages_(messages) {}

  // The call of the member at `position`. Returns when the collective has taken place.
  void join(SimGroup& group, int position, const Call& call);

 private:
  void check_agreement(const SimGroup& group, int position, const Call& call);
  void check_pair(const SimGroup& group, int first, const Call& a, int second, const Call& b);
  void perform(SimGroup& group);
  void reduce(SimGroup& group);
  void move(SimGroup& group);

  SimRun& run_;
  Messages& messages_;
  std::vector<std::byte> staging_;
};

}  // namespace shardproof
