// MpiCommunicator: one rank's end of a group over MPI. It only checks arguments; the work is done
// by MpiMessages and MpiCollectives.
#pragma once

#include "harness/worlds/mpi/collectives.h"
#include "harness/worlds/mpi/messages.h"

namespace shardproof {

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(MpiMessages& messages, MpiCollectives& collectives, MpiGroup group)
      : messages_(messages), collectives_(collectives), group_(std::move(group)) {}

  const MpiGroup& group() const { return group_; }

  int rank() const override { return group_.position; }
  int size() const override { return group_.size(); }

  Request start_send(const View& data, int target, int tag) override;
  Request start_receive(const View& data, int source, int tag) override;
  void launch() override { messages_.launch(); }
  void wait(Request& request) override { messages_.wait(request); }
  using Communicator::wait;

  void all_reduce(const View& data) override;
  void all_reduce_maximum(const View& data) override;
  void all_gather(const View& mine, std::span<const View> parts) override;
  void reduce_scatter(std::span<const View> parts, const View& mine) override;
  void all_to_all(std::span<const View> sent, std::span<const View> received) override;
  void broadcast(const View& data, int root) override;
  void barrier() override;
  const void* native() const override { return &group_.communicator; }

 private:
  void join(const CollectiveCall& call);

  MpiMessages& messages_;
  MpiCollectives& collectives_;
  MpiGroup group_;
};

}  // namespace shardproof
