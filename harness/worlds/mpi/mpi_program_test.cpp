// The program with --world=mpi, as its users run it.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <regex>
#include <thread>

#include "harness/worlds/mpi/mpi_fixture_test.h"

namespace shardproof {
namespace {

struct Ran {
  int exit_code = -1;
  std::string output;

  bool says(std::string_view text) const { return output.find(text) != std::string::npos; }
};

// In a folder of its own, for what it finds.
Ran run_program(const std::string& arguments) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("mpi_program_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string command =
      "cd '" + folder.string() + "' && " + SHARDPROOF_BINARY + " " + arguments + " 2>&1 </dev/null";
  Ran ran;
  FILE* pipe = popen(command.c_str(), "r");
  char chunk[4096];
  while (std::size_t count = fread(chunk, 1, sizeof chunk, pipe)) ran.output.append(chunk, count);
  const int status = pclose(pipe);
  std::filesystem::remove_all(folder);
  ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

// Guards tidy up on their own when what they guard for has ended.
bool nothing_is_left(const std::set<std::string>& before) {
  for (int i = 0; i < 100 && !new_folders(before).empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return new_folders(before).empty();
}

TEST(MpiProgram, SaysThatTheWorldIsUsable) {
  EXPECT_TRUE(std::regex_search(run_program("doctor").output, std::regex("mpi +usable")));
  EXPECT_TRUE(run_program("list worlds").says("each rank a process"));
}

TEST(MpiProgram, FuzzesWithoutAFalseAlarmAndLeavesNothing) {
  const std::set<std::string> before = run_folders();
  const Ran ran = run_program("fuzz --world=mpi --ranks=3 --cases=60 --seed=3");
  EXPECT_EQ(ran.exit_code, 0) << ran.output;
  EXPECT_TRUE(ran.says("HOLDS")) << ran.output;
  EXPECT_TRUE(nothing_is_left(before));
}

TEST(MpiProgram, KillsTheMutantThatOnlyProcessesShow) {
  const Ran ran = run_program("mutants --only=mlp_tells_through_memory --time=60s");
  EXPECT_EQ(ran.exit_code, 0) << ran.output;
  EXPECT_TRUE(ran.says("killed    mlp_tells_through_memory")) << ran.output;
  EXPECT_TRUE(ran.says("world=mpi")) << ran.output;
}

TEST(MpiProgram, ACaseThatFailsInTheSimulatedWorldIsShrunkThere) {
  const Ran ran =
      run_program("fuzz --world=mpi --ranks=2 --subject=mlp_bias_on_every_rank --cases=30");
  EXPECT_EQ(ran.exit_code, 1) << ran.output;
  EXPECT_TRUE(ran.says("mlp_bias_on_every_rank world=sim")) << ran.output;
}

TEST(MpiProgram, ADriverThatIsKilledLeavesNothing) {
  const std::set<std::string> before = run_folders();
  const pid_t driver = fork();
  if (driver == 0) {
    freopen("/dev/null", "w", stdout);
    execl(SHARDPROOF_BINARY, "shardproof", "fuzz", "--world=mpi", "--ranks=2", "--time=60s",
          nullptr);
    _exit(127);
  }
  for (int i = 0; i < 200 && new_folders(before).empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_FALSE(new_folders(before).empty()) << "it never started its ranks";
  kill(driver, SIGKILL);
  waitpid(driver, nullptr, 0);
  EXPECT_TRUE(nothing_is_left(before));
}

TEST(MpiProgram, RefusesMoreRanksThanThereAreOrCanBe) {
  EXPECT_EQ(run_program("fuzz --world=mpi --ranks=5000").exit_code, 2);
  const Ran ran = run_program("fuzz --world=mpi --ranks=2 --mesh=cp=4");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(ran.says("contradict")) << ran.output;
}

}  // namespace
}  // namespace shardproof
