// SimRank: one rank of a simulated run, and SimRun: what the ranks of a run share. A rank runs on a
// fiber; its groups are reused from case to case.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/worlds/far_memory.h"
#include "harness/worlds/placed_rank.h"
#include "harness/worlds/scheduler.h"

namespace shardproof {

class SimRank;
class Messages;
class Collectives;
struct Posting;
struct SimGroup;

struct SimRun {
  Scheduler scheduler;
  std::vector<std::unique_ptr<SimRank>> ranks;  // at least as many as the case has
  Ending ending = Ending::kCompleted;
  std::string message;
  std::vector<Finding> findings;
  FarMemory far;
  VirtualTime time;
  std::vector<SimRank*> awaiting_launches;

  // The rank that runs waits for its device, which may wait for other ranks: returns when one of
  // them has launched something.
  void await_launches(SimRank& rank);
  void has_launched();

  // Ends the run for all ranks. Called by the rank that runs; the first ending counts.
  [[noreturn]] void end(Ending how, std::string why);
};

class SimRank final : public PlacedRank {
 public:
  SimRank(int index, SimRun& run, Messages& messages, Collectives& collectives);

  Communicator& along(std::string_view axis) override;

  // Before a case.
  void begin(const Case& value, Device& device, const RunOptions& options);

  // The groups that the rank belongs to, one for each axis of the mesh in its order.
  void join_groups(std::vector<std::shared_ptr<SimGroup>> groups);

  // What the rank waits for while it is blocked.
  const Posting* awaited = nullptr;
  const SimGroup* awaited_group = nullptr;
  bool awaits_launches = false;

  std::vector<Posting*> outstanding;  // its postings that were not waited for yet
  int postings = 0;                   // how many it made: their ids

 private:
  SimRun& run_;
  Messages& messages_;
  Collectives& collectives_;
  std::vector<std::pair<std::string, std::unique_ptr<Communicator>>> communicators_;
};

}  // namespace shardproof
