#include "harness/worlds/mpi/rank.h"

#include <fmt/format.h>
#include <sched.h>

#include <numeric>

#include "harness/model/require.h"

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
      messages, collectives_, groups_.get(std::string(axis), number, {index()}, carrier.get())));
  return *communicators_.back();
}

void MpiRank::begin(const Case& value, Device& device, const Order& order) {
  PlacedRank::begin(value, device, {.keep_trace = order.keep_trace});
  run.begin(order.run, value.placement.schedule);
  if (value.placement.world == kNcclWorld) be_carried(device, order.limit_seconds);
  messages.begin();
  communicators_.clear();
  const Mesh& mesh = value.placement.mesh;
  for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
    const std::string& axis = mesh.axes[i].name;
    communicators_.push_back(std::make_unique<MpiCommunicator>(
        messages, collectives_,
        groups_.get(axis, 1 + static_cast<int>(i), mesh.group(index(), axis), carrier.get())));
  }
}

// A fleet serves one world, and its ranks keep what they have from case to case.
void MpiRank::be_carried(Device& device, double limit_seconds) {
  limit_seconds_ = limit_seconds;
  if (carrier != nullptr) return;
  device.wait_with([this] { watch_device(); });
  PlacedRank::be_carried();
  if (carrier != nullptr) return;
  throw Error(fmt::format("device '{}' cannot move data by itself, as this world wants",
                          running().placement.device));
}

// Called over and over while the rank waits for its device, and that perhaps for other ranks.
void MpiRank::watch_device() {
  carrier->check();
  if (run.elapsed() < limit_seconds_) {
    sched_yield();
    return;
  }
  const std::string why = fmt::format("rank {}: its device is not done after {:.1f} s, after {}",
                                      index(), limit_seconds_, run.status().read().last_event());
  run.end(Ending::kTimedOut, why);
  throw Overdue(why);
}

void MpiRank::give_up_transfers() {
  if (carrier != nullptr) carrier->abandon();
}

void MpiRank::meet_others() {
  std::vector<int> all(static_cast<std::size_t>(mesh().ranks()));
  std::iota(all.begin(), all.end(), 0);
  run.status().become(Activity::State::kFinished);
  check_mpi(MPI_Barrier(groups_.get("", kEverybody, all, nullptr).communicator));
}

}  // namespace shardproof
