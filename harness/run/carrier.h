// Carrier: moves a rank's data from its device to other ranks' devices, as work of the device: the
// host goes on. What is sent is what the device was asked to compute before; what comes is there
// for everything that it is asked for later. What ranks want has to agree: worlds see to that
// before, through the host.
#pragma once

#include <array>
#include <functional>

#include "harness/run/collective_call.h"

namespace shardproof {

class Carrier {
 public:
  // What the members of a group know each other by.
  using GroupId = std::array<char, 128>;

  virtual ~Carrier() = default;

  // All members of a new group are handed the same id, which one of them made, and join at the same
  // time: members in one thread inside together(). Returns the group's number for the calls below.
  virtual GroupId make_id() = 0;
  virtual int join(const GroupId& id, int size, int position) = 0;
  virtual void together(const std::function<void()>& join_all) = 0;

  // A transfer. Those of a rank that were started and not launched yet move at the same time, none
  // of them waiting for another. `request`: a number of the caller's, for finish().
  virtual void start(int group, const View& data, int peer, bool sends, int request) = 0;
  virtual void launch() = 0;

  // The device's later work is done after this transfer. Launches what was not.
  virtual void finish(int request) = 0;

  // A collective other than a barrier, done between the device's earlier and its later work.
  virtual void collect(int group, const CollectiveCall& call) = 0;

  // Whether every transfer that was started was finished.
  virtual bool is_idle() const = 0;

  // Throws what went wrong meanwhile without anybody having asked.
  virtual void check() = 0;

  // Gives up all groups and what is under way, wherever other members are.
  virtual void abandon() = 0;
};

}  // namespace shardproof
