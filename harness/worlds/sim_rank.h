// SimRank: one rank of a simulated run, and SimRun: what the ranks of a run share. A rank runs on a
// fiber; its tensors, memory and groups are reused from case to case.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/world.h"
#include "harness/worlds/far_memory.h"
#include "harness/worlds/rank_log.h"
#include "harness/worlds/scheduler.h"
#include "harness/worlds/shards.h"

namespace shardproof {

class SimRank;
class SimShards;
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

  // Ends the run for all ranks. Called by the rank that runs; the first ending counts.
  [[noreturn]] void end(Ending how, std::string why);
};

// The name of the phase and the axis as messages to people use them: "cp axis, forward".
std::string place(const std::string& axis, Phase phase);

// One tensor of the case as a rank sees it.
struct RankTensor {
  const TensorSpec* spec = nullptr;
  const PlacedShard* part = nullptr;
  View data;
};

class SimRank final : public Rank {
 public:
  SimRank(int index, SimRun& run, Messages& messages, Collectives& collectives);
  ~SimRank() override;

  const Case& running() const override { return *case_; }
  int index() const override { return index_; }
  View get(std::string_view tensor) override;
  std::span<const Index> owned(std::string_view tensor, int dimension) override;
  Tensor make(DType dtype, const Shape& shape) override;
  Device& device() override { return *device_; }
  Communicator& along(std::string_view axis) override;
  void holds_remote_kv(const View& view) override { memory.mark_received(view); }

  // Before and after a case.
  void begin(const Case& value, Device& device, bool keep_trace);
  void clear();

  // Gives the rank its part of every tensor, poisoned. `specs` must outlive the case.
  void place_tensors(const std::vector<TensorSpec>& specs, const SimShards& shards);

  // The tensors beside whose elements, in the same allocation, something was written that is no
  // tensor's. Poisons the tensors.
  std::vector<std::string> written_gaps();

  // The groups that the rank belongs to, one for each axis of the mesh in its order.
  void join_groups(std::vector<std::shared_ptr<SimGroup>> groups);

  Memory memory;                    // outlives the tensors below
  std::vector<RankTensor> tensors;  // in the operator's order
  RankLog log;

  // What the rank waits for while it is blocked.
  const Posting* awaited = nullptr;
  const SimGroup* awaited_group = nullptr;

  std::vector<Posting*> outstanding;  // its postings that were not waited for yet
  int postings = 0;                   // how many it made: their ids

 private:
  const RankTensor& find(std::string_view tensor) const;
  void arrange_tensors(const std::vector<TensorSpec>& specs, const SimShards& shards);
  void place_far(const TensorSpec& spec, const PlacedShard& part);

  int index_;
  // What the tensors are made of, and memory between rows that are far apart.
  struct FarGap {
    std::string_view tensor;
    View memory;
  };
  std::vector<Tensor> allocations_;
  std::vector<FarGap> far_gaps_;
  SimRun& run_;
  Messages& messages_;
  Collectives& collectives_;
  const Case* case_ = nullptr;
  Device* device_ = nullptr;
  std::vector<std::pair<std::string, std::unique_ptr<Communicator>>> communicators_;
};

}  // namespace shardproof
