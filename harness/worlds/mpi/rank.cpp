#include "harness/worlds/mpi/rank.h"

#include <numeric>

namespace shardproof {
namespace {

// Of the group of all ranks of a case; axes of the mesh, and those that it lacks, come after it.
constexpr int kEverybody = 0;

}  // namespace

Communicator& MpiRank::along(std::string_view axis) {
  for (const auto& communicator : communicators_) {
    if (communicator->group().axis == axis) return *communicator;
  }
  // The mesh has no such axis: a group of one.
  const int number = 1 + static_cast<int>(communicators_.size());
  communicators_.push_back(std::make_unique<MpiCommunicator>(
      messages, collectives_, groups_.get(std::string(axis), number, {index()})));
  return *communicators_.back();
}

void MpiRank::begin(const Case& value, Device& device, const Order& order) {
  PlacedRank::begin(value, device, {.keep_trace = order.keep_trace});
  run.begin(order.run, value.placement.schedule);
  messages.begin();
  communicators_.clear();
  const Mesh& mesh = value.placement.mesh;
  for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
    const std::string& axis = mesh.axes[i].name;
    communicators_.push_back(std::make_unique<MpiCommunicator>(
        messages, collectives_,
        groups_.get(axis, 1 + static_cast<int>(i), mesh.group(index(), axis))));
  }
}

void MpiRank::meet_others() {
  std::vector<int> all(static_cast<std::size_t>(mesh().ranks()));
  std::iota(all.begin(), all.end(), 0);
  run.status().become(Activity::State::kFinished);
  check_mpi(MPI_Barrier(groups_.get("", kEverybody, all).communicator));
}

}  // namespace shardproof
