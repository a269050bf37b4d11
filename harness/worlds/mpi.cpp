#include "harness/worlds/mpi.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "harness/model/require.h"
#include "harness/run/time_limit.h"
#include "harness/worlds/gather.h"
#include "harness/worlds/inputs.h"
#include "harness/worlds/mpi_fleet.h"
#include "harness/worlds/plugin_paths.h"
#include "harness/worlds/shard_table.h"

namespace shardproof {
namespace {

constexpr int kOutsideDeaths = 3;  // in a row, until the case takes the blame

constexpr double kRunSeconds = 5;  // least limit of a run where nobody says another

class MpiWorld final : public World {
 public:
  explicit MpiWorld(MpiOptions options) : options_(std::move(options)) { limit_run(kRunSeconds); }

  std::string unsupported(int ranks) const override;
  void limit_ranks(int ranks) override { most_ranks_ = ranks; }
  void limit_run(double seconds) override {
    limit_ = TimeLimit(std::max(seconds, options_.run_seconds));
  }
  Outcome run(const Case& value, const Subject& subject, const RunOptions& options) override;

 private:
  void start_fleet(int ranks);
  Conclusion run_on_ranks(const Case& value, const RunOptions& options);
  void assemble(std::vector<RankRecord> records, const RunOptions& options, Outcome& outcome);
  bool gather(const std::vector<RankRecord>& records, const RunOptions& options, Outcome& outcome);

  MpiOptions options_;
  TimeLimit limit_{kRunSeconds};
  int most_ranks_ = 0;
  std::optional<MpiFleet> fleet_;
  std::vector<TensorSpec> specs_;
  ShardTable shards_;
  Gather gather_;
};

std::string MpiWorld::unsupported(int ranks) const {
  if (most_ranks_ != 0 && ranks > most_ranks_) {
    return fmt::format("the world has {} ranks", most_ranks_);
  }
  const bool asks = options_.unsupported != nullptr && options_.command.on_this_host;
  return asks ? options_.unsupported(ranks) : std::string();
}

// A world that is too small is replaced by one that is large enough.
void MpiWorld::start_fleet(int ranks) {
  if (fleet_ && fleet_->ranks() >= ranks) return;
  fleet_.reset();
  MpiCommand command = options_.command;
  command.ranks = std::max({command.ranks, ranks, most_ranks_});
  fleet_.emplace(std::move(command));
}

Outcome MpiWorld::run(const Case& value, const Subject& subject, const RunOptions& options) {
  Outcome outcome;
  specs_ = value.problem.op->tensors(value.problem);
  if (std::string why = shards_.prepare(value, subject, specs_); !why.empty()) {
    outcome.ending = Ending::kThrew;
    outcome.message = std::move(why);
    return outcome;
  }
  Conclusion conclusion = run_on_ranks(value, options);
  outcome.ending = conclusion.ending;
  outcome.message = std::move(conclusion.message);
  if (outcome.ending == Ending::kCompleted) {
    assemble(std::move(conclusion.records), options, outcome);
  } else {
    fleet_.reset();
  }
  return outcome;
}

Conclusion MpiWorld::run_on_ranks(const Case& value, const RunOptions& options) {
  const int ranks = value.placement.mesh.ranks();
  const Operator& op = *value.problem.op;
  const double work = op.work == nullptr ? 0 : op.work(value.problem);
  for (int deaths = 1;; ++deaths) {
    try {
      start_fleet(ranks);
    } catch (const Error&) {
      if (deaths == kOutsideDeaths) throw;
      continue;  // somebody may have killed a part of it before it was complete
    }
    const auto start = std::chrono::steady_clock::now();
    Conclusion conclusion =
        fleet_->run(to_text(value), options.keep_trace, ranks, limit_.seconds(work));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (conclusion.ending == Ending::kCompleted) limit_.learn(work, took.count());
    if (!conclusion.is_outside || deaths == kOutsideDeaths) return conclusion;
    fleet_.reset();
  }
}

// Messages that nobody took, in the order of who sent them.
void find_lost_messages(const std::vector<RankRecord>& records, std::vector<Finding>& findings) {
  const auto expected = [&](int rank, const Flow& flow) -> Index {
    for (const Flow& theirs : records[static_cast<std::size_t>(flow.peer)].flows) {
      if (theirs.axis == flow.axis && theirs.peer == rank) return theirs.expected;
    }
    return 0;
  };
  for (std::size_t i = 0; i < records.size(); ++i) {
    const int rank = static_cast<int>(i);
    for (const Flow& flow : records[i].flows) {
      const Index lost = flow.sent - expected(rank, flow);
      if (lost <= 0) continue;
      findings.push_back({Breach::kLeakedRequest, rank, "", -1,
                          fmt::format("{} of the messages to rank {} ({} axis) were never received",
                                      lost, flow.peer, flow.axis)});
    }
  }
}

void MpiWorld::assemble(std::vector<RankRecord> records, const RunOptions& options,
                        Outcome& outcome) {
  find_lost_messages(records, outcome.findings);
  for (RankRecord& record : records) {
    std::move(record.findings.begin(), record.findings.end(), std::back_inserter(outcome.findings));
    std::move(record.events.begin(), record.events.end(), std::back_inserter(outcome.trace));
    outcome.ranks.push_back(std::move(record.facts));
  }
  // What was left in flight would reach the next case.
  const bool leaks =
      std::any_of(outcome.findings.begin(), outcome.findings.end(),
                  [](const Finding& finding) { return finding.breach == Breach::kLeakedRequest; });
  if (leaks) fleet_.reset();
  if (gather(records, options, outcome)) return;
  outcome.ending = Ending::kCrashed;
  outcome.message = "a rank sent outputs of another size than its shards have";
  fleet_.reset();
}

// False when what the ranks sent are not their shards.
bool MpiWorld::gather(const std::vector<RankRecord>& records, const RunOptions& options,
                      Outcome& outcome) {
  std::size_t output = 0;
  std::vector<GatheredPart> parts;
  for (std::size_t t = 0; t < specs_.size(); ++t) {
    if (is_input(specs_[t])) continue;
    parts.clear();
    for (std::size_t rank = 0; rank < records.size(); ++rank) {
      const PlacedShard& placed = shards_.at(static_cast<int>(rank), t);
      if (records[rank].parts.size() <= output) return false;
      const std::string& bytes = records[rank].parts[output];
      // Nobody writes to what is gathered.
      const View data = View::dense(const_cast<char*>(bytes.data()), specs_[t].dtype, placed.shape);
      if (data.bytes() != bytes.size()) return false;
      parts.push_back({&placed, data});
    }
    gather_.add(specs_[t], parts, options, outcome);
    ++output;
  }
  return true;
}

// The rank program lies beside the one that runs.
std::filesystem::path rank_program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "shardproof_rank";
}

std::string own_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) throw Error("this host has no name");
  return name.data();
}

}  // namespace

std::string why_no_mpi() {
  if (!std::filesystem::exists(rank_program())) {
    return "built without MPI: install libopenmpi-dev and openmpi-bin, then build again";
  }
  const std::string launcher = mpi_options().command.launcher.front();
  return on_path(launcher).empty() ? launcher + " is not on the PATH (Debian: openmpi-bin)" : "";
}

MpiOptions mpi_options() {
  MpiOptions options;
  options.command.program = {rank_program().string()};
  for (std::string& path : plugin_paths()) options.command.program.push_back(std::move(path));
  const char* launcher = std::getenv("SHARDPROOF_MPIRUN");
  std::istringstream words(launcher == nullptr ? "" : launcher);
  for (std::string word; words >> word;) options.command.launcher.push_back(word);
  options.command.on_this_host = options.command.launcher.empty();
  if (options.command.on_this_host) {
    options.command.launcher = {"mpirun"};
  } else {
    const char* address = std::getenv("SHARDPROOF_ADDRESS");
    options.command.address = address == nullptr ? own_name() : address;
  }
  return options;
}

std::unique_ptr<World> make_mpi(MpiOptions options) {
  return std::make_unique<MpiWorld>(std::move(options));
}

WorldEntry mpi_world() {
  return {"mpi", "each rank a process that mpirun starts, kept alive from case to case",
          [](const std::vector<DeviceEntry>&) { return why_no_mpi(); },
          [](std::vector<DeviceEntry>) { return make_mpi(mpi_options()); }};
}

}  // namespace shardproof
