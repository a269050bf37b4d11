#include "harness/worlds/sim_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/worlds/arrangement.h"
#include "harness/worlds/sim_communicator.h"
#include "harness/worlds/sim_shards.h"

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

void SimRun::end(Ending how, std::string why) {
  if (ending == Ending::kCompleted) {
    ending = how;
    message = std::move(why);
  }
  scheduler.stop();
}

std::string place(const std::string& axis, Phase phase) {
  return fmt::format("{} axis, {}", axis, phase == Phase::kForward ? "forward" : "backward");
}

SimRank::SimRank(int index, SimRun& run, Messages& messages, Collectives& collectives)
    : index_(index), run_(run), messages_(messages), collectives_(collectives) {}

SimRank::~SimRank() { clear(); }

View SimRank::get(std::string_view tensor) { return find(tensor).data; }

std::span<const Index> SimRank::owned(std::string_view tensor, int dimension) {
  const Shard& shard = find(tensor).part->indices;
  if (dimension < 0 || dimension >= static_cast<int>(shard.size())) {
    throw std::out_of_range(fmt::format("'{}' has no dimension {}", tensor, dimension));
  }
  return shard[static_cast<std::size_t>(dimension)];
}

Tensor SimRank::make(DType dtype, const Shape& shape) { return memory.allocate("", dtype, shape); }

Communicator& SimRank::along(std::string_view axis) {
  for (auto& [name, communicator] : communicators_) {
    if (name == axis) return *communicator;
  }
  // The mesh has no such axis: a group of one.
  auto group = std::make_shared<SimGroup>();
  group->axis = axis;
  group->axis_index = static_cast<int>(communicators_.size());
  group->members = {index_};
  communicators_.emplace_back(
      axis, std::make_unique<SimCommunicator>(run_, messages_, collectives_, *this, group, 0));
  return *communicators_.back().second;
}

void SimRank::begin(const Case& value, Device& device, bool keep_trace) {
  case_ = &value;
  device_ = &device;
  log.begin(index_, device, keep_trace);
  awaited = nullptr;
  awaited_group = nullptr;
  outstanding.clear();
  postings = 0;
}

void SimRank::clear() {
  kept_.clear();
  tensors.clear();
  allocations_.clear();
  far_gaps_.clear();
  memory.reset();
}

void SimRank::place_tensors(const std::vector<TensorSpec>& specs, const SimShards& shards) {
  const Views views = case_->placement.views;
  if (views != Views::kDense && views != Views::kFar) return arrange_tensors(specs, shards);
  for (std::size_t t = 0; t < specs.size(); ++t) {
    const PlacedShard& part = shards.at(index_, t);
    if (views == Views::kFar) {
      place_far(specs[t], part);
    } else {
      allocations_.push_back(memory.allocate(specs[t].name, specs[t].dtype, part.shape));
      tensors.push_back({&specs[t], &part, allocations_.back()});
    }
  }
}

// Dense where there are not at least two tokens, or rows.
void SimRank::place_far(const TensorSpec& spec, const PlacedShard& part) {
  std::vector<View> gaps;
  const int dimension = std::max(spec.token_dimension, 0);
  std::optional<View> data = run_.far.place(spec.dtype, part.shape, dimension, gaps);
  if (!data) {
    allocations_.push_back(memory.allocate(spec.name, spec.dtype, part.shape));
    data = allocations_.back();
  }
  for (const View& gap : gaps) far_gaps_.push_back({spec.name, gap});
  tensors.push_back({&spec, &part, *data});
}

void SimRank::arrange_tensors(const std::vector<TensorSpec>& specs, const SimShards& shards) {
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

std::vector<std::string> SimRank::written_gaps() {
  for (const RankTensor& tensor : tensors) Memory::poison(tensor.data);
  std::vector<std::string> names;
  for (const Tensor& allocation : allocations_) {
    if (Memory::first_written(allocation) < 0) continue;
    names.push_back(memory.owner(allocation.view().data));
  }
  for (const FarGap& gap : far_gaps_) {
    if (Memory::first_written(gap.memory) >= 0) names.emplace_back(gap.tensor);
  }
  return names;
}

void SimRank::join_groups(std::vector<std::shared_ptr<SimGroup>> groups) {
  communicators_.clear();
  for (auto& group : groups) {
    std::string axis = group->axis;
    const int position = group->position_of(index_);
    communicators_.emplace_back(
        std::move(axis), std::make_unique<SimCommunicator>(run_, messages_, collectives_, *this,
                                                           std::move(group), position));
  }
}

const RankTensor& SimRank::find(std::string_view tensor) const {
  for (const RankTensor& candidate : tensors) {
    if (same(candidate.spec->name, tensor)) return candidate;
  }
  std::string names;
  for (const RankTensor& candidate : tensors) names += fmt::format(" {}", candidate.spec->name);
  throw std::out_of_range(fmt::format("no tensor '{}'; the operator has{}", tensor, names));
}

}  // namespace shardproof
