#include "harness/worlds/placed_rank.h"

#include <fmt/format.h>

#include <stdexcept>

#include "harness/model/require.h"

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

View PlacedRank::get(std::string_view tensor) { return find(tensor).data.view(); }

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

void PlacedRank::begin(const Case& value, Device& device, bool keep_trace) {
  case_ = &value;
  device_ = &device;
  log.begin(index_, device, keep_trace);
}

void PlacedRank::clear() {
  kept_.clear();
  tensors.clear();
  memory.reset();
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
  }
  while (static_cast<int>(made.size()) < count) made.push_back(found->make());
  return made;
}

}  // namespace shardproof
