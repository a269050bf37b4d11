#include "harness/bench/overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "harness/model/require.h"
#include "harness/worlds/worlds.h"

namespace shardproof {
namespace {

constexpr int kRepetitions = 15;

const WorldEntry& world_named(const std::vector<WorldEntry>& worlds, std::string_view name) {
  const auto found = std::find_if(worlds.begin(), worlds.end(),
                                  [&](const WorldEntry& each) { return each.name == name; });
  require(found != worlds.end(), "the world is in the table");
  return *found;
}

class Overlap {
 public:
  Overlap(const Tables& tables, World& processes, World& simulated)
      : tables_(tables), processes_(processes), simulated_(simulated) {}

  void fit_links();
  void print_row(int ranks, Index block);

 private:
  Outcome run_processes(Case value) const;
  Outcome run_simulated(const Case& value) const;
  double shift_seconds(Index count) const;

  const Tables& tables_;
  World& processes_;
  World& simulated_;
  VirtualTime time_;
};

Outcome Overlap::run_processes(Case value) const {
  value.placement.world = "mpi";
  Outcome outcome = processes_.run(value, *tables_.subject(value.placement.subject), {});
  if (outcome.ending != Ending::kCompleted) throw Error(outcome.message);
  return outcome;
}

Outcome Overlap::run_simulated(const Case& value) const {
  return simulated_.run(value, *tables_.subject(value.placement.subject), {.time = time_});
}

// What one shift of `count` numbers between two ranks takes from its posting on when neither waits
// for the other: the least of several runs.
double Overlap::shift_seconds(Index count) const {
  const Case value = parse_case(
      fmt::format("collective collective=ring_shift parts=2 count={} dtype=f32 data=normal seed=1 "
                  "| collectives world=sim device=cpu mesh=tp:2",
                  count),
      tables_.vocabulary());
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepetitions; ++i) {
    double slower = 0;
    for (const Event& event : run_processes(value).trace) {
      if (event.operation == "receive") slower = std::max(slower, event.end - event.start);
    }
    least = std::min(least, slower);
  }
  return least;
}

// Two sizes give the two figures of a link.
void Overlap::fit_links() {
  constexpr Index kFew = 16, kMany = 1 << 20;
  const double few = shift_seconds(kFew);
  const double many = shift_seconds(kMany);
  time_.latency_seconds = few;
  time_.bytes_per_second = 4.0 * (kMany - kFew) / std::max(many - few, 1e-9);
  fmt::print("links as fitted: {:.1f} us, {:.2f} GB/s\n", 1e6 * few, 1e-9 * time_.bytes_per_second);
}

double mean_exposed(const Outcome& outcome) {
  double sum = 0;
  for (const RankFacts& rank : outcome.ranks) sum += rank.exposed_seconds;
  return sum / static_cast<double>(outcome.ranks.size());
}

void Overlap::print_row(int ranks, Index block) {
  const Case value = parse_case(
      fmt::format("attention batch=1 q={0} kv={0} heads=4 dim=64 mask=none dtype=f32 data=normal "
                  "seed=1 | ring_attention world=sim device=cpu mesh=cp:{1}",
                  block * ranks, ranks),
      tables_.vocabulary());
  std::vector<double> exposed;
  Outcome outcome;
  for (int i = 0; i < kRepetitions; ++i) {
    outcome = run_processes(value);
    exposed.push_back(mean_exposed(outcome));
  }
  std::nth_element(exposed.begin(), exposed.begin() + kRepetitions / 2, exposed.end());
  const double measured = exposed[kRepetitions / 2];

  double transfers = 0;
  for (const Event& event : outcome.trace) {
    if (event.operation != "receive") continue;
    transfers += time_.transfer(1, static_cast<double>(event.bytes)) / ranks;
  }
  const RankFacts& first = outcome.ranks[0];
  time_.multiply_adds_per_second =
      first.meter.multiply_adds / (first.finished_at - first.exposed_seconds);
  const double predicted = mean_exposed(run_simulated(value));
  const auto hidden = [&](double seconds) { return 100 * (1 - seconds / transfers); };
  fmt::print("{:>5} {:>13} {:>12.3f} {:>11.3f} {:>9.0f} {:>14.3f} {:>9.0f}\n", ranks, block,
             1e3 * transfers, 1e3 * measured, hidden(measured), 1e3 * predicted, hidden(predicted));
  std::fflush(stdout);
}

}  // namespace

void print_overlap(const Tables& tables) {
  fmt::print(
      "\nRing attention over processes: transfers of a rank, milliseconds, and percent of "
      "them that hides behind work\n");
  const std::vector<WorldEntry> worlds = all_worlds();
  const WorldEntry& entry = world_named(worlds, "mpi");
  if (const std::string why = why_not(entry, tables.devices); !why.empty()) {
    fmt::print("not here: {}\n", why);
    return;
  }
  const auto processes = entry.make(tables.devices);
  const auto simulated = world_named(worlds, "sim").make(tables.devices);
  processes->limit_ranks(4);
  Overlap overlap(tables, *processes, *simulated);
  overlap.fit_links();
  fmt::print("{:>5} {:>13} {:>12} {:>11} {:>9} {:>14} {:>9}\n", "ranks", "tokens/block",
             "transfers", "exposed", "hidden", "sim: exposed", "hidden");
  for (int ranks : {2, 4}) {
    for (Index block : {32, 128, 512}) overlap.print_row(ranks, block);
  }
}

}  // namespace shardproof
