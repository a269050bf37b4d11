#include "harness/worlds/sim_rank.h"

#include "harness/worlds/sim_communicator.h"

namespace shardproof {
void SimRun::end(Ending how, std::string why) {
  if (ending == Ending::kCompleted) {
    ending = how;
    message = std::move(why);
  }
  scheduler.stop();
}

void SimRun::await_launches(SimRank& rank) {
  rank.awaits_launches = true;
  awaiting_launches.push_back(&rank);
  scheduler.block();
}

void SimRun::has_launched() {
  for (SimRank* rank : awaiting_launches) {
    rank->awaits_launches = false;
    scheduler.wake(rank->index());
  }
  awaiting_launches.clear();
}

SimRank::SimRank(int index, SimRun& run, Messages& messages, Collectives& collectives)
    : PlacedRank(index), run_(run), messages_(messages), collectives_(collectives) {}

Communicator& SimRank::along(std::string_view axis) {
  for (auto& [name, communicator] : communicators_) {
    if (name == axis) return *communicator;
  }
  // The mesh has no such axis: a group of one.
  auto group = std::make_shared<SimGroup>();
  group->axis = axis;
  group->axis_index = static_cast<int>(communicators_.size());
  group->members = {index()};
  if (carrier != nullptr) group->join_carriers({carrier.get()});
  communicators_.emplace_back(
      axis, std::make_unique<SimCommunicator>(run_, messages_, collectives_, *this, group, 0));
  return *communicators_.back().second;
}

void SimRank::begin(const Case& value, Device& device, const RunOptions& options) {
  PlacedRank::begin(value, device, options);
  awaited = nullptr;
  awaited_group = nullptr;
  awaits_launches = false;
  outstanding.clear();
  postings = 0;
}

void SimRank::join_groups(std::vector<std::shared_ptr<SimGroup>> groups) {
  communicators_.clear();
  for (auto& group : groups) {
    std::string axis = group->axis;
    const int position = group->position_of(index());
    communicators_.emplace_back(
        std::move(axis), std::make_unique<SimCommunicator>(run_, messages_, collectives_, *this,
                                                           std::move(group), position));
  }
}

}  // namespace shardproof
