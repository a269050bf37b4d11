// MpiMessages: one rank's point-to-point transfers. Each message carries what its sender thinks it
// is, so that ranks that disagree are found. Where the rank has a carrier, that is all: the data
// goes from device to device, and nobody looks at it in flight. Else data goes out from a copy and
// comes in through one: the receive buffer stays poisoned until its wait returns, and a send buffer
// is compared with what it held when its wait returns, as in the simulated world.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "harness/worlds/mpi/groups.h"
#include "harness/worlds/mpi/run.h"

namespace shardproof {

class MpiMessages {
 public:
  explicit MpiMessages(MpiRun& run) : run_(run) {}

  void begin();

  Request send(const MpiGroup& group, const View& data, int target, int tag);
  Request receive(const MpiGroup& group, const View& data, int source, int tag);
  void launch();
  void wait(Request& request);

  // Notes a finding when a collective uses `data` while it is in flight.
  void check_idle(const View& data, std::string_view operation, bool writes);
  bool is_idle() const { return outstanding_.empty(); }

  // Notes what was never waited for.
  void find_leaks();
  const std::vector<Flow>& flows() const { return flows_; }

 private:
  struct Posting {
    bool sends = false;
    int id = 0;
    int peer = 0;  // global
    int tag = 0;
    std::string where;  // "cp axis, forward"
    View data;
    bool in_tensor = false;  // whether the rank's memory owned the data when it was posted
    bool faulty = false;     // a finding was made: the consequences are not reported again
    std::size_t event = 0;
    std::size_t flow = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    std::vector<std::byte> message;  // header and payload
  };

  Carrier* carrier() const { return run_.rank().carrier.get(); }
  Posting& post(const MpiGroup& group, const View& data, int peer, int tag, bool sends);
  std::size_t flow_to(const std::string& axis, int peer);
  std::string describe(const Posting& posting) const;
  void check_overlap(Posting& posting);
  void finish_send(Posting& send);
  void finish_receive(Posting& receive, const MPI_Status& status);
  void report(Posting& posting, std::string detail);

  MpiRun& run_;
  std::list<Posting> outstanding_;
  std::vector<Flow> flows_;
  int posted_ = 0;
};

}  // namespace shardproof
