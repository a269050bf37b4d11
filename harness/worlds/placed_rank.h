// PlacedRank: what a rank has in every world: its memory, its part of each tensor of the case, and
// the log of what it communicated. A world adds the groups. All is reused from case to case.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/run/world.h"
#include "harness/worlds/far_memory.h"
#include "harness/worlds/rank_log.h"
#include "harness/worlds/shard_table.h"

namespace shardproof {

// The name of the phase and the axis as messages to people use them: "cp axis, forward".
std::string place(std::string_view axis, Phase phase);

// One tensor of the case as a rank sees it.
struct RankTensor {
  const TensorSpec* spec = nullptr;
  const PlacedShard* part = nullptr;
  View data;
};

class PlacedRank : public Rank {
 public:
  explicit PlacedRank(int index) : index_(index) {}
  ~PlacedRank() override { clear(); }

  const Case& running() const override { return *case_; }
  int index() const override { return index_; }
  View get(std::string_view tensor) override;
  std::span<const Index> owned(std::string_view tensor, int dimension) override;
  Tensor make(DType dtype, const Shape& shape) override;
  Device& device() override { return *device_; }
  void holds_remote_kv(const View& view) override { memory.mark_received(view); }

  // Returns when the device has done what the rank asked it for: before the host looks at its
  // tensors.
  void settle() const { device_->settle(); }

  // Has the device move the rank's data from now on; see also `carrier`.
  void be_carried() { carrier = device_->make_carrier(); }

  // Before and after a case.
  void begin(const Case& value, Device& device, const RunOptions& options);
  void clear();

  // Gives the rank its part of every tensor as the case's views say, poisoned. All arguments must
  // outlive the case.
  void place_tensors(const std::vector<TensorSpec>& specs, const ShardTable& shards,
                     FarMemory& far);

  // Notes the tensors beside whose elements, in the same allocation, something was written that is
  // no tensor's. Poisons the tensors, which must have been read.
  void find_written_gaps(std::vector<Finding>& findings);

  // Notes the guard bands that the case broke.
  void find_broken_guards(std::vector<Finding>& findings) const;

  Memory memory;                    // outlives the tensors below
  std::vector<RankTensor> tensors;  // in the operator's order
  RankLog log;

  // Moves what the rank sends and receives; null: its world does, through the host.
  std::unique_ptr<Carrier> carrier;

 private:
  // Memory between rows that are far apart.
  struct FarGap {
    std::string_view tensor;
    View memory;
  };

  const RankTensor& find(std::string_view tensor) const;
  void arrange_tensors(const std::vector<TensorSpec>& specs, const ShardTable& shards);
  void place_far(const TensorSpec& spec, const PlacedShard& part, FarMemory& far);

  int index_;
  std::vector<Tensor> allocations_;  // what the tensors are made of
  std::vector<FarGap> far_gaps_;
  const Case* case_ = nullptr;
  Device* device_ = nullptr;
};

// One device a rank, made when first needed and kept.
class RankDevices {
 public:
  static constexpr int kOfManyRanks = -1;

  // `number`: which rank of this host the process is, if it is one.
  explicit RankDevices(std::vector<DeviceEntry> entries, int number = kOfManyRanks)
      : entries_(std::move(entries)), number_(number) {}

  // At least `count` devices of that name. Throws Error when there are none such here.
  std::vector<std::unique_ptr<Device>>& at_least(int count, const std::string& name);

 private:
  std::vector<DeviceEntry> entries_;
  int number_;
  std::map<std::string, std::vector<std::unique_ptr<Device>>> made_;
};

}  // namespace shardproof
