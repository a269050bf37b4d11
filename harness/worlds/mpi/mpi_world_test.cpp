// The MPI world over real processes: what it gives, what it finds, and what it survives. The test
// program is also what its ranks run.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "harness/run/process_memory.h"
#include "harness/worlds/mpi/mpi_fixture_test.h"

namespace shardproof {

std::unique_ptr<World> make_test_mpi(int ranks, double run_seconds) {
  MpiOptions options = mpi_options();
  options.command.ranks = ranks;
  options.command.program = {std::filesystem::read_symlink("/proc/self/exe").string(), "rank"};
  auto world = make_mpi(options);
  world->limit_run(run_seconds);
  return world;
}

Outcome run_test(World& world, const Case& value, const RunOptions& options) {
  return world.run(value, mpi_test_subject(value.placement.subject), options);
}

std::vector<int> descendants() {
  std::vector<int> found;
  const auto visit = [&](auto& self, int pid) -> void {
    const std::string id = std::to_string(pid);
    std::ifstream children("/proc/" + id + "/task/" + id + "/children");
    for (int child = 0; children >> child;) {
      found.push_back(child);
      self(self, child);
    }
  };
  visit(visit, getpid());
  return found;
}

std::set<std::string> run_folders() {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("shardproof-", 0) == 0) found.insert(name);
  }
  return found;
}

std::set<std::string> new_folders(const std::set<std::string>& known) {
  std::set<std::string> folders = run_folders();
  for (const std::string& folder : known) folders.erase(folder);
  return folders;
}

namespace {

void expect_same(const Outcome& got, const Outcome& want) {
  expect_clean(got);
  ASSERT_EQ(got.tensors.size(), want.tensors.size());
  for (std::size_t i = 0; i < want.tensors.size(); ++i) {
    const auto& a = got.tensors[i].got;
    const auto& b = want.tensors[i].got;
    ASSERT_EQ(a.size(), b.size());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(double)), 0)
        << want.tensors[i].spec.name;
  }
  ASSERT_EQ(got.ranks.size(), want.ranks.size());
  for (std::size_t r = 0; r < want.ranks.size(); ++r) {
    EXPECT_EQ(got.ranks[r].traffic, want.ranks[r].traffic) << "rank " << r;
    EXPECT_EQ(got.ranks[r].peak_bytes, want.ranks[r].peak_bytes);
  }
  EXPECT_EQ(got.trace.size(), want.trace.size());
  EXPECT_EQ(got.shards.size(), want.shards.size());
}

TEST(MpiWorld, GivesTheBitsThatTheSimulatedWorldGives) {
  auto mpi = make_test_mpi(4);
  auto sim = make_sim();
  std::uint64_t schedule = 0;
  for (const char* subject : {"copies", "ring", "collectives"}) {
    for (const Mesh& mesh : {Mesh{}, cp_mesh(2), cp_mesh(3), Mesh{{{"tp", 2}, {"cp", 2}}}}) {
      for (DType dtype : all_dtypes()) {
        Case value = mpi_test_case(subject, 1, 5);
        value.placement.mesh = mesh;
        value.placement.schedule = schedule++;
        value.problem.dtype = dtype;
        SCOPED_TRACE(to_text(value));
        const RunOptions options{.keep_shards = true};
        expect_same(run_test(*mpi, value, options), run_test(*sim, value, options));
      }
    }
  }
}

double value_of_y(const Outcome& outcome) {
  const Gathered* y = outcome.find("y");
  return y == nullptr ? -1 : y->got[0];
}

TEST(MpiWorld, IsStartedOnceForManyCasesAndAgainForALargerMesh) {
  auto mpi = make_test_mpi(2);
  EXPECT_EQ(value_of_y(run_test(*mpi, mpi_test_case("counts", 2))), 1);
  EXPECT_EQ(value_of_y(run_test(*mpi, mpi_test_case("counts", 1))), 2);
  EXPECT_EQ(value_of_y(run_test(*mpi, mpi_test_case("counts", 2))), 3);
  EXPECT_EQ(value_of_y(run_test(*mpi, mpi_test_case("counts", 3))), 1);
  EXPECT_EQ(value_of_y(run_test(*mpi, mpi_test_case("counts", 2))), 2);
}

TEST(MpiWorld, ARankLimitIsAReason) {
  auto mpi = make_test_mpi(1);
  mpi->limit_ranks(4);
  EXPECT_EQ(mpi->unsupported(4), "");
  EXPECT_EQ(mpi->unsupported(5), "the world has 4 ranks");
}

TEST(MpiWorld, AReceiveBufferIsPoisonUntilItsWaitReturns) {
  auto mpi = make_test_mpi(2);
  const Outcome outcome = run_test(*mpi, mpi_test_case("reads_early", 2));
  expect_clean(outcome);
  EXPECT_EQ(value_of_y(outcome), 1);
}

TEST(MpiWorld, ASendBufferThatChangesInFlightIsFound) {
  auto mpi = make_test_mpi(2);
  const Finding finding =
      only_finding(run_test(*mpi, mpi_test_case("changes_in_flight", 2)), Breach::kInFlightChanged);
  EXPECT_EQ(finding.rank, 1);
  EXPECT_NE(finding.detail.find("send to rank 0 (tag 0, cp axis, forward): element 2 was 1"),
            std::string::npos)
      << finding.detail;
}

TEST(MpiWorld, AMessageThatNobodyReceivesIsFoundAndHarmsNoOtherCase) {
  auto mpi = make_test_mpi(2);
  const Finding finding =
      only_finding(run_test(*mpi, mpi_test_case("loses_a_message", 2)), Breach::kLeakedRequest);
  EXPECT_EQ(finding.rank, 1);
  EXPECT_NE(finding.detail.find("to rank 0 (cp axis)"), std::string::npos) << finding.detail;
  expect_clean(run_test(*mpi, mpi_test_case("ring", 2)));
}

TEST(MpiWorld, RanksThatDisagreeAreNamed) {
  auto mpi = make_test_mpi(2);
  const Outcome outcome = run_test(*mpi, mpi_test_case("disagrees", 2));
  EXPECT_EQ(outcome.ending, Ending::kMismatched) << text(outcome);
  EXPECT_NE(outcome.message.find("in broadcast (cp axis, forward) rank 0 gives 2 f32 elements "
                                 "where rank 1 takes 3 f32 elements"),
            std::string::npos)
      << outcome.message;
  expect_clean(run_test(*mpi, mpi_test_case("ring", 2)));
}

TEST(MpiWorld, ADeadlockIsToldFromASlowRank) {
  auto mpi = make_test_mpi(3);
  const Outcome outcome = run_test(*mpi, mpi_test_case("deadlocks", 3));
  EXPECT_EQ(outcome.ending, Ending::kDeadlocked) << text(outcome);
  for (const char* part : {"no rank can go on", "rank 0 waits in receive from rank 1 (tag 3",
                           "rank 2 waits in receive from rank 0"}) {
    EXPECT_NE(outcome.message.find(part), std::string::npos) << outcome.message;
  }
}

struct Fate {
  const char* subject;
  Ending ending;
  const char* says;
  const char* after = "all_reduce (cp axis, forward)";
};

void PrintTo(const Fate& fate, std::ostream* out) { *out << fate.subject; }

class MpiFault : public testing::TestWithParam<Fate> {};

TEST_P(MpiFault, IsAVerdictAndTheNextCaseRuns) {
  const Fate& fate = GetParam();
  const bool is_memory = std::string_view(fate.subject) == "leaks";
  if (is_memory && data_bytes() == 0) GTEST_SKIP() << "a sanitizer's memory says nothing";
  const bool hangs = fate.ending == Ending::kTimedOut;
  auto mpi = make_test_mpi(3, hangs ? 0.5 : 60);
  for (Index features : {3, 1}) {  // on one rank, on all
    const Outcome outcome = run_test(*mpi, mpi_test_case(fate.subject, 3, 7, features));
    EXPECT_EQ(outcome.ending, fate.ending) << text(outcome);
    EXPECT_TRUE(outcome.tensors.empty());
    EXPECT_NE(outcome.message.find(fate.says), std::string::npos) << outcome.message;
    EXPECT_NE(outcome.message.find(fate.after), std::string::npos) << outcome.message;
    if (features == 3) {
      EXPECT_NE(outcome.message.find("rank 1"), std::string::npos) << outcome.message;
    }
  }
  EXPECT_EQ(value_of_y(run_test(*mpi, mpi_test_case("counts", 3))), 1);
  mpi.reset();
  EXPECT_TRUE(descendants().empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, MpiFault,
    testing::Values(Fate{"segfaults", Ending::kCrashed, "was ended by signal 11"},
                    Fate{"aborts", Ending::kCrashed, "was ended by signal 6"},
                    Fate{"exits", Ending::kCrashed, "ended with exit code 3"},
                    Fate{"throws", Ending::kThrew, "no such thing"},
                    Fate{"spins", Ending::kTimedOut, "is busy after"},
                    Fate{"sleeps", Ending::kTimedOut, "is busy after"},
                    Fate{"is_killed", Ending::kCrashed, "was ended by signal 9"},
                    Fate{"is_stopped", Ending::kTimedOut, "was stopped by a signal"},
                    Fate{"prints_and_aborts", Ending::kCrashed, "last words"},
                    Fate{"handles_signals", Ending::kCrashed, "ended with exit code 5"},
                    Fate{"rounds_up", Ending::kThrew, "changed the rounding mode", "barrier (cp"},
                    Fate{"ignores_signals", Ending::kThrew, "changed what is done on Segmentation",
                         "barrier (cp"},
                    Fate{"leaks", Ending::kThrew, "1024 MiB stay allocated", "barrier (cp"},
                    Fate{"corrupts", Ending::kCrashed, "was ended by signal 11"}),
    [](const auto& fate) { return std::string(fate.param.subject); });

TEST(MpiWorld, ARankThatWantsAllMemoryIsAVerdict) {
  if (data_bytes() == 0) GTEST_SKIP() << "a sanitizer needs more than any limit";
  auto mpi = make_test_mpi(2);
  const Outcome outcome = run_test(*mpi, mpi_test_case("is_hungry", 2));
  EXPECT_NE(outcome.ending, Ending::kCompleted);
  EXPECT_NE(outcome.message.find("rank 1"), std::string::npos) << outcome.message;
}

TEST(MpiWorld, TheDeathOfMpirunCostsNoVerdict) {
  const std::string marker =
      (std::filesystem::temp_directory_path() / ("marker_" + std::to_string(getpid()))).string();
  setenv("SHARDPROOF_TEST_MARKER", marker.c_str(), 1);
  auto mpi = make_test_mpi(2);
  expect_clean(run_test(*mpi, mpi_test_case("kills_mpirun", 2)));
  EXPECT_TRUE(std::filesystem::remove(marker)) << "it was never killed";
}

TEST(MpiWorld, LeavesNothingBehindWhoeverIsKilled) {
  const std::set<std::string> before = run_folders();
  const pid_t owner = fork();
  if (owner == 0) {
    auto mpi = make_test_mpi(2);
    run_test(*mpi, mpi_test_case("sleeps", 2));
    _exit(0);
  }
  std::vector<int> all;
  for (int i = 0; i < 200 && all.size() < 7; ++i) {  // owner, guard, mpirun, 2 x watcher and rank
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    all = descendants();
  }
  ASSERT_GE(all.size(), 7u);
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  const auto alive = [&] {
    return std::count_if(all.begin(), all.end(), [](int pid) {
      std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
      std::string line;
      std::getline(stat, line);
      const auto end = line.rfind(')');
      return end != std::string::npos && line[end + 2] != 'Z';
    });
  };
  for (int i = 0; i < 100 && (alive() > 0 || !new_folders(before).empty()); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(alive(), 0);
  EXPECT_TRUE(new_folders(before).empty());
}

TEST(MpiWorld, SaysWhyItCannotStart) {
  MpiOptions options = mpi_options();
  options.command.ranks = 2;
  options.command.program = {"/no/such/program"};
  const auto mpi = make_mpi(options);
  try {
    run_test(*mpi, mpi_test_case("copies", 2));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("/no/such/program"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "rank") {
    shardproof::run_rank_program(shardproof::mpi_test_tables(), argv[2], argv[3]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
