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

  // After a run that did not complete: what its transfers have come to is unknown.
  void give_up_transfers();

  // Returns when all ranks of the case have done their part.
  void meet_others();

  MpiRun run;
  MpiMessages messages{run};

 private:
  void be_carried(Device& device, double limit_seconds);
  void watch_device();

  double limit_seconds_ = 0;
  MpiCollectives collectives_{run};
  MpiGroups groups_;
  std::vector<std::unique_ptr<MpiCommunicator>> communicators_;
};

}  // namespace shardproof
