// What the members of one communicator of the NCCL double share: who they are, and what each has
// asked for that others have not done their part of yet.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/devices/cuda/doubles/nccl.h"

namespace shardproof::cuda_double {

// A member's part of a transfer or collective, at its place on a stream.
struct NcclPart {
  std::string_view operation;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  int peer = -1;  // or root
  int position = 0;
  cudaStream_t stream = nullptr;
  std::uint64_t place = 0;  // how much stands before it on the stream
  bool done = false;
  NcclPart* other = nullptr;   // a transfer's other side
  std::size_t collective = 0;  // which one it is a part of

  bool is_transfer() const { return operation == "send" || operation == "receive"; }
  std::size_t bytes() const;
};

class NcclClique {
 public:
  explicit NcclClique(int size) : seats_(static_cast<std::size_t>(size)) {}

  int size() const { return static_cast<int>(seats_.size()); }
  bool join(int position);  // false: somebody sits there
  bool is_complete() const;
  void leave(int position) { seat(position).gone = true; }
  ncclResult_t error(int position) const {
    return seats_[static_cast<std::size_t>(position)].error;
  }

  // Makes a part known to the others, and finds those that disagree with it. It stays where it is.
  NcclPart& post(NcclPart part);

  // Whether the part is done, after doing it if all sides have come to it. Nothing of a member that
  // has left is left to do.
  bool is_done(NcclPart& part);

 private:
  struct Seat {
    bool taken = false;
    bool gone = false;
    ncclResult_t error = ncclSuccess;
    std::size_t collectives = 0;  // asked for so far
  };
  using Waiting = std::map<std::pair<int, int>, std::deque<NcclPart*>>;  // by sender and receiver

  Seat& seat(int position) { return seats_[static_cast<std::size_t>(position)]; }
  void meet(NcclPart& part);
  void enter(NcclPart& part);
  void disagree(const NcclPart& a, const NcclPart& b);
  bool has_come(const NcclPart& part);

  std::vector<Seat> seats_;
  std::deque<NcclPart> parts_;  // all that were ever asked for
  Waiting sends_;
  Waiting receives_;
  std::deque<std::vector<NcclPart*>> collectives_;  // parts by position; null: not asked for yet
};

// What a collective does, all of its parts at once.
void perform(const std::vector<NcclPart*>& parts);

struct NcclMember {
  std::shared_ptr<NcclClique> clique;
  int position = 0;
};

}  // namespace shardproof::cuda_double
