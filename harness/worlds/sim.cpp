// The simulated world: all ranks of a case run as fibers in the calling thread. A run is a pure
// function of the case; everything that does not change a result is kept from run to run.
#include "harness/worlds/sim.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "harness/model/require.h"
#include "harness/worlds/deadlock.h"
#include "harness/worlds/gather.h"
#include "harness/worlds/inputs.h"
#include "harness/worlds/process_state.h"
#include "harness/worlds/shard_table.h"
#include "harness/worlds/sim_communicator.h"

namespace shardproof {
namespace {

class SimWorld final : public World {
 public:
  SimWorld(std::vector<DeviceEntry> devices, Moving moving)
      : moving_(moving), devices_(std::move(devices)) {}

  Outcome run(const Case& value, const Subject& subject, const RunOptions& options) override;

 private:
  void prepare_ranks(const Case& value, const RunOptions& options);
  void prepare_groups(const Mesh& mesh);
  void be_carried(int ranks);
  void give_up_transfers(int ranks);
  bool place_tensors(const Case& value, const Subject& subject);
  void run_rank(SimRank& rank, const Subject& subject);
  Outcome collect(int ranks, const RunOptions& options);

  Moving moving_;
  ProcessState process_;  // before any case
  bool looks_at_signals_ = false;
  RankDevices devices_;
  SimRun run_;
  Messages messages_{run_};
  Collectives collectives_{run_, messages_};
  Inputs inputs_;
  ShardTable shards_;
  Gather gather_;
  std::vector<GatheredPart> parts_;  // reused
  std::optional<Mesh> mesh_;         // that the groups below belong to
  std::vector<std::shared_ptr<SimGroup>> groups_;
};

Outcome SimWorld::run(const Case& value, const Subject& subject, const RunOptions& options) {
  const int ranks = value.placement.mesh.ranks();
  run_.time = options.time;
  prepare_ranks(value, options);
  prepare_groups(value.placement.mesh);
  messages_.begin(ranks);
  run_.ending = Ending::kCompleted;
  run_.message.clear();
  run_.awaiting_launches.clear();
  run_.findings.clear();
  inputs_.prepare(value.problem);
  looks_at_signals_ = options.looks_at_signals;
  process_.restore(looks_at_signals_);
  if (place_tensors(value, subject)) {
    run_.scheduler.run(
        ranks, value.placement.schedule,
        [&](int rank) { run_rank(*run_.ranks[static_cast<std::size_t>(rank)], subject); },
        [&] {
          run_.ending = Ending::kDeadlocked;
          run_.message = wait_for_graph(run_, ranks);
        });
    process_.restore(looks_at_signals_);  // what a rank changed that did not come to its end
  }
  if (moving_ == Moving::kByDevices) give_up_transfers(ranks);
  Outcome outcome = collect(ranks, options);
  if (value.placement.views != Views::kDense) {
    for (int rank = 0; rank < ranks; ++rank) {
      run_.ranks[static_cast<std::size_t>(rank)]->find_written_gaps(outcome.findings);
    }
  }
  for (int rank = 0; rank < ranks; ++rank) run_.ranks[static_cast<std::size_t>(rank)]->clear();
  if (value.placement.views == Views::kFar) run_.far.clear();
  return outcome;
}

void SimWorld::prepare_ranks(const Case& value, const RunOptions& options) {
  const int ranks = value.placement.mesh.ranks();
  auto& used = devices_.at_least(ranks, value.placement.device);
  run_.far.lie_in(used[0]->store());
  for (int r = 0; r < ranks; ++r) {
    const auto i = static_cast<std::size_t>(r);
    if (i == run_.ranks.size()) {
      run_.ranks.push_back(std::make_unique<SimRank>(r, run_, messages_, collectives_));
      mesh_.reset();
    }
    run_.ranks[i]->begin(value, *used[i], options);
  }
}

void SimWorld::prepare_groups(const Mesh& mesh) {
  if (mesh_ == mesh) {
    for (auto& group : groups_) group->begin();
    return;
  }
  const int ranks = mesh.ranks();
  groups_.clear();
  if (moving_ == Moving::kByDevices) be_carried(ranks);
  std::vector<std::vector<std::shared_ptr<SimGroup>>> of_rank(static_cast<std::size_t>(ranks));
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    const std::string& name = mesh.axes[axis].name;
    for (int first = 0; first < ranks; ++first) {
      if (mesh.coordinate(first, name) != 0) continue;
      auto group = std::make_shared<SimGroup>();
      group->axis = name;
      group->axis_index = static_cast<int>(axis);
      group->members = mesh.group(first, name);
      group->begin();
      for (int member : group->members) {
        of_rank[static_cast<std::size_t>(member)].push_back(group);
      }
      if (moving_ == Moving::kByDevices) {
        std::vector<Carrier*> carriers;
        for (int member : group->members) {
          carriers.push_back(run_.ranks[static_cast<std::size_t>(member)]->carrier.get());
        }
        group->join_carriers(carriers);
      }
      groups_.push_back(std::move(group));
    }
  }
  for (std::size_t r = 0; r < of_rank.size(); ++r) {
    run_.ranks[r]->join_groups(std::move(of_rank[r]));
  }
  mesh_ = mesh;
}

void SimWorld::be_carried(int ranks) {
  for (int r = 0; r < ranks; ++r) {
    SimRank& rank = *run_.ranks[static_cast<std::size_t>(r)];
    rank.device().wait_with([this, &rank] { run_.await_launches(rank); });
    rank.be_carried();
    if (rank.carrier == nullptr) {
      throw Error(fmt::format("device '{}' cannot move data by itself, as this world wants",
                              rank.running().placement.device));
    }
  }
}

// What a run that did not complete, or that did not wait for all it started, has left behind.
void SimWorld::give_up_transfers(int ranks) {
  const auto begin = run_.ranks.begin();
  const bool is_clean =
      run_.ending == Ending::kCompleted &&
      std::all_of(begin, begin + ranks, [](const auto& rank) { return rank->carrier->is_idle(); });
  if (is_clean) return;
  for (int r = 0; r < ranks; ++r) run_.ranks[static_cast<std::size_t>(r)]->carrier->abandon();
  mesh_.reset();
}

// False when the subject's sharding is not one.
bool SimWorld::place_tensors(const Case& value, const Subject& subject) {
  std::string why = shards_.prepare(value, subject, inputs_.specs());
  if (!why.empty()) {
    run_.ending = Ending::kThrew;
    run_.message = std::move(why);
    return false;
  }
  for (int r = 0; r < value.placement.mesh.ranks(); ++r) {
    SimRank& rank = *run_.ranks[static_cast<std::size_t>(r)];
    rank.place_tensors(inputs_.specs(), shards_, run_.far);
    inputs_.fill(rank);
  }
  return true;
}

void SimWorld::run_rank(SimRank& rank, const Subject& subject) {
  const auto threw = [&](std::string_view what) {
    run_.end(Ending::kThrew,
             fmt::format("rank {}: {}{}", rank.index(), what, rank.log.after_last_event()));
  };
  try {
    subject.forward(rank);
    rank.log.phase = Phase::kBackward;
    if (subject.backward != nullptr) subject.backward(rank);
    rank.settle();
    const std::string changed = process_.restore(looks_at_signals_);
    if (!changed.empty()) threw(changed);
  } catch (const Scheduler::Unwind&) {
    process_.restore(false);  // a fiber would keep it for another case
    throw;
  } catch (const std::exception& error) {
    threw(error.what());
  } catch (...) {
    threw("an exception that is not a std::exception");
  }
}

Outcome SimWorld::collect(int ranks, const RunOptions& options) {
  Outcome outcome;
  outcome.ending = run_.ending;
  outcome.message = std::move(run_.message);
  const bool completed = run_.ending == Ending::kCompleted;
  if (completed) messages_.find_leaks();
  outcome.findings = std::move(run_.findings);
  outcome.ranks.reserve(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    SimRank& rank = *run_.ranks[static_cast<std::size_t>(r)];
    rank.find_broken_guards(outcome.findings);
    if (completed) inputs_.find_changes(rank, outcome.findings);
    outcome.ranks.push_back(rank.log.facts(rank.memory));
    rank.log.move_events_to(outcome.trace);
  }
  if (!completed) return outcome;
  outcome.tensors.reserve(inputs_.specs().size());
  for (std::size_t t = 0; t < inputs_.specs().size(); ++t) {
    if (is_input(inputs_.specs()[t])) continue;
    parts_.clear();
    for (int r = 0; r < ranks; ++r) {
      const SimRank& rank = *run_.ranks[static_cast<std::size_t>(r)];
      parts_.push_back({&shards_.at(r, t), rank.tensors[t].data});
    }
    gather_.add(inputs_.specs()[t], parts_, options, outcome);
  }
  return outcome;
}

}  // namespace

std::unique_ptr<World> make_simulated(std::vector<DeviceEntry> devices, Moving moving) {
  return std::make_unique<SimWorld>(std::move(devices), moving);
}

WorldEntry sim_world() {
  return {"sim", "all ranks as fibers in one thread under a seeded schedule, in virtual time",
          [](const std::vector<DeviceEntry>&) { return std::string(); },
          [](std::vector<DeviceEntry> devices) -> std::unique_ptr<World> {
            return make_simulated(std::move(devices), Moving::kByHost);
          }};
}

}  // namespace shardproof
