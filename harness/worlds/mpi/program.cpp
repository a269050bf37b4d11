#include "harness/worlds/mpi/program.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "harness/model/require.h"
#include "harness/run/process_memory.h"
#include "harness/worlds/inputs.h"
#include "harness/worlds/mpi/rank.h"
#include "harness/worlds/mpi/watcher.h"
#include "harness/worlds/mpi_wire.h"
#include "harness/worlds/process_state.h"
#include "harness/worlds/shard_table.h"
#include "harness/worlds/storage.h"

namespace shardproof {
namespace {

class RankProgram {
 public:
  // `number`: the rank's among those of this host.
  RankProgram(const RankTables& tables, RankStatus& status, int number)
      : tables_(tables), devices_(tables.devices, number), rank_(status.rank, status) {}

  RankRecord run(const Order& order);

 private:
  void run_case(const Case& value, const Order& order);
  void place_tensors(const Case& value, const Subject& subject);
  void run_subject(const Subject& subject);
  void collect(RankRecord& record);
  void take_outputs(RankRecord& record);
  void find_leak(std::uint64_t before, RankRecord& record);
  const Subject& subject(std::string_view name) const;

  const RankTables& tables_;
  ProcessState process_;  // before any case
  RankDevices devices_;
  FarMemory far_;  // outlives the rank
  MpiRank rank_;
  Inputs inputs_;
  ShardTable shards_;
  std::vector<std::byte> room_;  // for outputs that are not dense
};

RankRecord RankProgram::run(const Order& order) {
  RankRecord record;
  record.run = order.run;
  try {
    const Case value = parse_case(order.text, tables_.vocabulary);
    set_case_for_require(order.text);
    const std::uint64_t before = data_bytes();
    run_case(value, order);
    collect(record);
    rank_.clear();
    if (value.placement.views == Views::kFar) far_.clear();
    find_leak(before, record);
  } catch (const Error& error) {
    record.trouble = error.what();
    record.ending = Ending::kCrashed;
  }
  return record;
}

void RankProgram::run_case(const Case& value, const Order& order) {
  Device& device = *devices_.at_least(1, value.placement.device)[0];
  far_.lie_in(device.store());
  rank_.begin(value, device, order);
  const Subject& implementation = subject(value.placement.subject);
  place_tensors(value, implementation);
  run_subject(implementation);
  // Others may wait for ever for a rank that failed: then the world ends them.
  if (rank_.run.ending == Ending::kCompleted) {
    rank_.meet_others();
  } else {
    rank_.give_up_transfers();
  }
}

void RankProgram::place_tensors(const Case& value, const Subject& subject) {
  inputs_.prepare(value.problem);
  const std::string why = shards_.prepare(value, subject, inputs_.specs());
  require(why.empty(), "the world refuses shards that are none");
  rank_.place_tensors(inputs_.specs(), shards_, far_);
  inputs_.fill(rank_);
}

void RankProgram::run_subject(const Subject& subject) {
  const auto threw = [&](std::string_view what) {
    rank_.run.end(Ending::kThrew, fmt::format("rank {}: {} after {}", rank_.index(), what,
                                              rank_.run.status().read().last_event()));
  };
  try {
    subject.forward(rank_);
    rank_.log.phase = Phase::kBackward;
    if (subject.backward != nullptr) subject.backward(rank_);
    rank_.settle();
  } catch (const std::bad_alloc&) {
    threw("memory exhausted");
  } catch (const std::exception& error) {
    threw(error.what());  // not a mismatch, which has ended the run already
  } catch (...) {
    threw("an exception that is not a std::exception");
  }
  if (const std::string changed = process_.restore(true); !changed.empty()) threw(changed);
}

void RankProgram::collect(RankRecord& record) {
  MpiRun& run = rank_.run;
  const bool completed = run.ending == Ending::kCompleted;
  if (completed) rank_.messages.find_leaks();
  rank_.find_broken_guards(run.findings);
  if (completed) inputs_.find_changes(rank_, run.findings);
  rank_.log.advance_to(run.elapsed());
  record.ending = run.ending;
  record.message = std::move(run.message);
  record.findings = std::move(run.findings);
  record.facts = rank_.log.facts(rank_.memory);
  record.facts.exposed_seconds = run.exposed();
  rank_.log.move_events_to(record.events);
  record.flows = rank_.messages.flows();
  if (completed) take_outputs(record);
  if (rank_.running().placement.views != Views::kDense) {
    rank_.find_written_gaps(record.findings);
  }
}

void RankProgram::take_outputs(RankRecord& record) {
  for (std::size_t t = 0; t < inputs_.specs().size(); ++t) {
    if (is_input(inputs_.specs()[t])) continue;
    const View& data = rank_.tensors[t].data;
    const std::byte* bytes = packed_bytes(data, room_);
    record.parts.emplace_back(reinterpret_cast<const char*>(bytes), data.bytes());
  }
}

// What the world keeps for later cases is a few times what a case had at most.
void RankProgram::find_leak(std::uint64_t before, RankRecord& record) {
  constexpr std::uint64_t kMuch = std::uint64_t{256} << 20;
  const auto peak = static_cast<std::uint64_t>(record.facts.peak_bytes);
  const std::uint64_t after = data_bytes();
  if (record.ending != Ending::kCompleted || after < before + kMuch + 8 * peak) return;
  record.ending = Ending::kThrew;
  record.message = fmt::format("rank {}: {} MiB stay allocated after {}", rank_.index(),
                               (after - before) >> 20, rank_.run.status().read().last_event());
}

const Subject& RankProgram::subject(std::string_view name) const {
  const auto found = std::find_if(tables_.subjects.begin(), tables_.subjects.end(),
                                  [&](const Subject* each) { return each->name == name; });
  if (found == tables_.subjects.end()) throw Error(fmt::format("unknown subject '{}'", name));
  return **found;
}

// A rank that wants too much should fail alone: an equal share of this host's memory, on top of
// what it uses already.
void limit_memory(int ranks) {
  const std::uint64_t used = data_bytes();
  if (used == 0) return;
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const auto all = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * page;
  constexpr std::uint64_t kLeast = std::uint64_t{1} << 30;
  const std::uint64_t share = std::max(kLeast, all / static_cast<std::uint64_t>(ranks));
  const rlimit limit{used + share, used + share};
  setrlimit(RLIMIT_DATA, &limit);  // what it fills, not addresses
}

// Returns the rank's number among those of this host.
int join_world(RankStatus& status) {
  int number = 0;
  int ranks = 0;
  check_mpi(MPI_Init(nullptr, nullptr));
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &number));
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
  status.ranks = ranks;
  status.rank = number;
  limit_memory(ranks);
  MPI_Comm here = MPI_COMM_NULL;
  int number_here = 0;
  check_mpi(
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, number, MPI_INFO_NULL, &here));
  check_mpi(MPI_Comm_rank(here, &number_here));
  check_mpi(MPI_Comm_free(&here));
  return number_here;
}

}  // namespace

void run_rank_program(const RankTables& tables, const std::string& address,
                      const std::string& token) {
  RankStatus& status = RankStatus::make();
  const int ready = fork_watched_rank(address, token, status);
  const int number = join_world(status);
  const char byte = 1;
  if (write(ready, &byte, 1) != 1) _exit(1);
  Wire wire = connect_to(address);
  wire.send(Greeting{token, false, status.rank, status.ranks}.packed());
  RankProgram program(tables, status, number);
  for (std::string message; wire.receive(message);) {
    const bool sent = wire.send(program.run(Order::unpacked(message)).packed());
    status.become(Activity::State::kIdle);
    if (!sent) break;
  }
  _exit(0);  // the driver is gone: there is nothing to tidy up that its guard does not
}

}  // namespace shardproof
