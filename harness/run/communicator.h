// Communicator: messages and collectives among the ranks of one group (one axis of the mesh).
// Peers are numbered inside the group. Views must be dense. A receive buffer is undefined until its
// wait returns; a send buffer must not change before its wait returns.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "harness/run/tensor.h"

namespace shardproof {

// An outstanding send or receive. Exactly one wait() per request.
struct Request {
  int id = -1;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Point to point. Messages between two ranks match by (source, tag) in the order of posting.
  virtual Request start_send(const View& data, int target, int tag) = 0;
  virtual Request start_receive(const View& data, int source, int tag) = 0;
  virtual void wait(Request& request) = 0;

  // Blocking forms: start and wait.
  void send(const View& data, int target, int tag);
  void receive(const View& data, int source, int tag);

  // A send to one neighbour and a receive from another in flight together.
  struct Exchange {
    Request send;
    Request receive;
  };
  Exchange start_exchange(const View& outgoing, int target, const View& incoming, int source,
                          int tag);
  void wait(Exchange& exchange);

  // What was started begins to move now, all at the same time, unless it did before. A hint: waits
  // do it, too.
  virtual void launch() {}

  // Element-wise sum over the group, in place. Each addition is rounded to the view's dtype; the
  // order is that of the group, the same on all ranks.
  virtual void all_reduce(const View& data) = 0;

  // Element-wise maximum over the group, in place; NaN where any rank has NaN.
  virtual void all_reduce_maximum(const View& data) = 0;

  // parts[r] receives rank r's `mine`; counts may differ between ranks.
  virtual void all_gather(const View& mine, std::span<const View> parts) = 0;

  // `mine` receives the sum over ranks of their parts[rank()].
  virtual void reduce_scatter(std::span<const View> parts, const View& mine) = 0;

  // received[r] receives what rank r passed as sent[rank()].
  virtual void all_to_all(std::span<const View> sent, std::span<const View> received) = 0;

  // Everybody's `data` becomes that of `root`.
  virtual void broadcast(const View& data, int root) = 0;

  virtual void barrier() = 0;

  // The communicator of the library beneath, for code that talks to that: points to an MPI_Comm in
  // the MPI world, null in the simulated one.
  virtual const void* native() const { return nullptr; }
};

}  // namespace shardproof
