// MpiCollectives: collectives of one rank over MPI's own. First all members tell each other what
// they are about to do, so that ranks that disagree are found; then MPI moves bytes; sums are made
// here, in the order of the group, so that they are those of the simulated world bit for bit. Where
// the rank has a carrier, the devices do all that, in an order of their own.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/run/collective_call.h"
#include "harness/worlds/mpi/groups.h"
#include "harness/worlds/mpi/run.h"

namespace shardproof {

class MpiCollectives {
 public:
  explicit MpiCollectives(MpiRun& run) : run_(run) {}

  // Returns when the collective has taken place.
  void join(const MpiGroup& group, const CollectiveCall& call);

 private:
  struct Envelope;

  void agree(const MpiGroup& group, const CollectiveCall& call);
  void check_pair(const MpiGroup& group, const Envelope& mine, int peer, const Envelope& theirs);
  void exchange(const MpiGroup& group, const CollectiveCall& call);
  void reduce(const MpiGroup& group, const CollectiveCall& call);
  void unpack(const MpiGroup& group, const CollectiveCall& call);

  MpiRun& run_;
  std::vector<std::byte> outgoing_;
  std::vector<std::byte> incoming_;  // what came, by member
};

}  // namespace shardproof
