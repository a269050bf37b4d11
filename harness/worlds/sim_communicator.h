// SimCommunicator: one rank's end of a group in the simulated world. It only checks arguments; the
// work is done by Messages and Collectives.
#pragma once

#include <memory>

#include "harness/worlds/sim_collectives.h"
#include "harness/worlds/sim_messages.h"

namespace shardproof {

class SimCommunicator final : public Communicator {
 public:
  SimCommunicator(SimRun& run, Messages& messages, Collectives& collectives, SimRank& rank,
                  std::shared_ptr<SimGroup> group, int position);

  int rank() const override { return position_; }
  int size() const override { return group_->size(); }

  Request start_send(const View& data, int target, int tag) override;
  Request start_receive(const View& data, int source, int tag) override;
  void launch() override;
  void wait(Request& request) override;
  using Communicator::wait;

  void all_reduce(const View& data) override;
  void all_reduce_maximum(const View& data) override;
  void all_gather(const View& mine, std::span<const View> parts) override;
  void reduce_scatter(std::span<const View> parts, const View& mine) override;
  void all_to_all(std::span<const View> sent, std::span<const View> received) override;
  void broadcast(const View& data, int root) override;
  void barrier() override;

 private:
  void join(const CollectiveCall& call);

  SimRun& run_;
  Messages& messages_;
  Collectives& collectives_;
  SimRank& rank_;
  std::shared_ptr<SimGroup> group_;
  int position_;
};

}  // namespace shardproof
