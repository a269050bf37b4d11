// MpiRank: the rank that this process is.
#pragma once

#include <memory>
#include <vector>

#include "harness/worlds/mpi/communicator.h"

namespace shardproof {

class MpiRank final : public PlacedRank {
 public:
  MpiRank(int index, RankStatus& status) : PlacedRank(index), run(status, *this) {}

  Communicator& along(std::string_view axis) override;

  // Before a case, on all ranks of its mesh.
  void begin(const Case& value, Device& device, const Order& order);

  // Returns when all ranks of the case have done their part.
  void meet_others();

  MpiRun run;
  MpiMessages messages{run};

 private:
  MpiCollectives collectives_{run};
  MpiGroups groups_;
  std::vector<std::unique_ptr<MpiCommunicator>> communicators_;
};

}  // namespace shardproof
