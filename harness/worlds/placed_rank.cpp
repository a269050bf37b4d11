#include "harness/worlds/placed_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/model/require.h"
#include "harness/worlds/arrangement.h"

namespace shardproof {
namespace {

// Names are short: a call of memcmp costs more than the comparison.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

}  // namespace

std::string place(std::string_view axis, Phase phase) {
  return fmt::format("{} axis, {}", axis, phase == Phase::kForward ? "forward" : "backward");
}

View PlacedRank::get(std::string_view tensor) { return find(tensor).data; }

std::span<const Index> PlacedRank::owned(std::string_view tensor, int dimension) {
  const Shard& shard = find(tensor).part->indices;
  if (dimension < 0 || dimension >= static_cast<int>(shard.size())) {
    throw std::out_of_range(fmt::format("'{}' has no dimension {}", tensor, dimension));
  }
  return shard[static_cast<std::size_t>(dimension)];
}

Tensor PlacedRank::make(DType dtype, const Shape& shape) {
  return memory.allocate("", dtype, shape);
}

void PlacedRank::begin(const Case& value, Device& device, const RunOptions& options) {
  case_ = &value;
  device_ = &device;
  memory.lie_in(device.store());
  log.begin(index_, device, options);
}

void PlacedRank::clear() {
  kept_.clear();
  tensors.clear();
  allocations_.clear();
  far_gaps_.clear();
  memory.reset();
}

void PlacedRank::place_tensors(const std::vector<TensorSpec>& specs, const ShardTable& shards,
                               FarMemory& far) {
  const Views views = case_->placement.views;
  if (views != Views::kDense && views != Views::kFar) {
    arrange_tensors(specs, shards);
  } else {
    for (std::size_t t = 0; t < specs.size(); ++t) {
      const PlacedShard& part = shards.at(index_, t);
      if (views == Views::kFar) {
        place_far(specs[t], part, far);
      } else {
        allocations_.push_back(memory.allocate(specs[t].name, specs[t].dtype, part.shape));
        tensors.push_back({&specs[t], &part, allocations_.back()});
      }
    }
  }
  settle();  // the host fills them next
}

// Dense where there are not at least two tokens, or rows.
void PlacedRank::place_far(const TensorSpec& spec, const PlacedShard& part, FarMemory& far) {
  std::vector<View> gaps;
  const int dimension = std::max(spec.token_dimension, 0);
  std::optional<View> data = far.place(spec.dtype, part.shape, dimension, gaps);
  if (!data) {
    allocations_.push_back(memory.allocate(spec.name, spec.dtype, part.shape));
    data = allocations_.back();
  }
  for (const View& gap : gaps) far_gaps_.push_back({spec.name, gap});
  tensors.push_back({&spec, &part, *data});
}

void PlacedRank::arrange_tensors(const std::vector<TensorSpec>& specs, const ShardTable& shards) {
  std::vector<Shape> shapes;
  for (std::size_t t = 0; t < specs.size(); ++t) shapes.push_back(shards.at(index_, t).shape);
  const Arrangement arrangement = arranged(case_->placement.views, specs, shapes);
  for (std::size_t a = 0; a < arrangement.owners.size(); ++a) {
    const TensorSpec& owner = specs[arrangement.owners[a]];
    allocations_.push_back(memory.allocate(owner.name, owner.dtype, {arrangement.elements[a]}));
  }
  for (std::size_t t = 0; t < specs.size(); ++t) {
    const Place& place = arrangement.places[t];
    const Index first = place.first * static_cast<Index>(storage_bytes(specs[t].dtype));
    std::byte* data = allocations_[place.allocation].view().data + first;
    tensors.push_back(
        {&specs[t], &shards.at(index_, t), {data, specs[t].dtype, shapes[t], place.strides}});
  }
}

void PlacedRank::find_written_gaps(std::vector<Finding>& findings) {
  const auto note = [&](std::string tensor) {
    findings.push_back({Breach::kGuardBand, index_, std::move(tensor), -1,
                        "memory between the rows of the tensor was written"});
  };
  for (const RankTensor& tensor : tensors) Memory::poison(tensor.data);
  for (const Tensor& allocation : allocations_) {
    if (Memory::first_written(allocation) >= 0) note(memory.owner(allocation.view().data));
  }
  for (const FarGap& gap : far_gaps_) {
    if (Memory::first_written(gap.memory) >= 0) note(std::string(gap.tensor));
  }
}

void PlacedRank::find_broken_guards(std::vector<Finding>& findings) const {
  for (std::string& tensor : memory.broken_guards()) {
    findings.push_back({Breach::kGuardBand, index_, std::move(tensor), -1,
                        "memory right before or after the tensor was written"});
  }
}

const RankTensor& PlacedRank::find(std::string_view tensor) const {
  for (const RankTensor& candidate : tensors) {
    if (same(candidate.spec->name, tensor)) return candidate;
  }
  std::string names;
  for (const RankTensor& candidate : tensors) names += fmt::format(" {}", candidate.spec->name);
  throw std::out_of_range(fmt::format("no tensor '{}'; the operator has{}", tensor, names));
}

std::vector<std::unique_ptr<Device>>& RankDevices::at_least(int count, const std::string& name) {
  const DeviceEntry* found = nullptr;
  std::string choices;
  for (const DeviceEntry& entry : entries_) {
    if (entry.name == name) found = &entry;
    choices += fmt::format(" {}", entry.name);
  }
  if (found == nullptr) throw Error(fmt::format("unknown device '{}'; choices:{}", name, choices));
  auto& made = made_[name];
  if (made.empty()) {
    const std::string why_not = found->unavailable();
    if (!why_not.empty())
      throw Error(fmt::format("device '{}' cannot run here: {}", name, why_not));
    if (found->choose != nullptr && number_ != kOfManyRanks) found->choose(number_);
  }
  while (static_cast<int>(made.size()) < count) made.push_back(found->make());
  return made;
}

}  // namespace shardproof
