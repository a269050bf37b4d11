// NcclCarrier: Carrier by NCCL, or by its double: transfers of a rank on a stream of their own, in
// the order in which they are launched, so that the compute stream goes on beside them. Events make
// a transfer wait for what the compute stream was asked for before, and the compute stream wait for
// the transfer when that is finished. Device memory is sent and received as it is. Sums are NCCL's,
// in an order of its own; those of tf32, which NCCL does not know, are made in f32 and rounded
// once.
#pragma once

#include <vector>

#include "harness/devices/cuda/make_carrier.h"
#include "harness/devices/cuda/nccl.h"

namespace shardproof::SHARDPROOF_SIDE {

class NcclCarrier final : public Carrier {
 public:
  NcclCarrier(Device& device, Queue& queue);
  ~NcclCarrier() override;
  NcclCarrier(const NcclCarrier&) = delete;
  NcclCarrier& operator=(const NcclCarrier&) = delete;

  GroupId make_id() override;
  int join(const GroupId& id, int size, int position) override;
  void together(const std::function<void()>& join_all) override;

  void start(int group, const View& data, int peer, bool sends, int request) override;
  void launch() override;
  void finish(int request) override;
  void collect(int group, const CollectiveCall& call) override;

  bool is_idle() const override { return started_.empty() && flights_.empty(); }
  void check() override;
  void abandon() override;

 private:
  struct Group {
    ncclComm_t communicator = nullptr;
    int size = 0;
    int position = 0;
  };
  struct Transfer {
    ncclComm_t communicator = nullptr;
    View data;
    int peer = 0;
    bool sends = false;
    int request = 0;
  };
  // Transfers that were launched together.
  struct Flight {
    std::vector<int> requests;  // that were not finished
    cudaEvent_t done = nullptr;
  };

  void follow_compute();
  template <class Calls>
  void on_stream(Calls calls);
  void transfer(const Transfer& each);
  void round_sums(const View& data);
  void gather_all(const Group& group, const View& mine, const View& all);
  void gather(const Group& group, const View& mine, std::span<const View> parts);
  void scatter(const Group& group, std::span<const View> parts, const View& mine);
  void exchange(const Group& group, const CollectiveCall& call);
  View room_for_all(const Group& group, const View& data);
  cudaEvent_t take_event();

  Device& device_;
  Queue& queue_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t computed_ = nullptr;
  cudaEvent_t collected_ = nullptr;
  std::vector<Group> groups_;
  std::vector<Transfer> started_;
  std::vector<Flight> flights_;
  std::vector<cudaEvent_t> unused_events_;
};

}  // namespace shardproof::SHARDPROOF_SIDE
