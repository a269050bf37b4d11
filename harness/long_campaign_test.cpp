// Campaigns that are killed, resumed, divided and joined, and those that cannot store what they
// find.
#include <fcntl.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <set>
#include <thread>

#include "harness/program_fixture_test.h"

namespace shardproof {
namespace {

// Fails now and then, and shrinks in no time.
const std::string kHunt =
    "fuzz --seed=9 --regressions=none --subject=column_row_mlp,mlp_bias_on_every_rank "
    "--property=matches_reference,nan_reaches_its_readers --cases=";

class LongCampaign : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    fs::create_directories(folder_ / "none");
  }

  // The summary without what depends on time and place.
  nlohmann::json summary(const std::string& name) const {
    nlohmann::json record = last_record(name);
    for (const char* key : {"seconds", "cases_per_second", "jobs"}) record.erase(key);
    return record;
  }

  // The cases of a --json file's verdicts.
  std::set<std::string> cases(const std::string& name) const {
    std::set<std::string> result;
    std::istringstream lines(read(name));
    for (std::string line; std::getline(lines, line);) {
      const auto record = nlohmann::json::parse(line);
      if (record["record"] == "verdict") result.insert(record["case"]);
    }
    return result;
  }

  // Kills the program with SIGKILL once the file has so many lines.
  void run_until(const std::string& arguments, const std::string& name, int lines) const {
    const pid_t driver = fork();
    if (driver == 0) {
      const std::string command = "exec " SHARDPROOF_BINARY " " + arguments + " >log 2>&1";
      if (chdir(folder_.c_str()) != 0) _exit(9);
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(9);
    }
    for (int i = 0; i < 2000; ++i) {
      const std::string text = read(name);
      if (std::count(text.begin(), text.end(), '\n') >= lines) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    kill(driver, SIGKILL);
    int status = 0;
    waitpid(driver, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "it had ended before: " << read("log");
  }
};

TEST_F(LongCampaign, OneThatIsKilledGoesOnToTheSameEnd) {
  ASSERT_EQ(run(kHunt + "1500 --json=whole.jsonl").exit_code, 1);
  run_until(kHunt + "1500 --journal=j.jsonl", "j.jsonl", 2);
  std::ofstream(folder_ / "j.jsonl", std::ios::app) << "{\"record\":\"prog";  // cut off
  const Ran rest = run("fuzz --resume=j.jsonl --json=rest.jsonl --jobs=1");
  EXPECT_EQ(rest.exit_code, 1) << rest.output;
  EXPECT_TRUE(rest.says("resumed after")) << rest.output;
  EXPECT_EQ(summary("rest.jsonl"), summary("whole.jsonl"));
  // What has ended says so again and does nothing.
  const Ran again = run("fuzz --resume=j.jsonl --json=again.jsonl");
  EXPECT_EQ(again.exit_code, 1) << again.output;
  EXPECT_EQ(summary("again.jsonl"), summary("whole.jsonl"));
}

TEST_F(LongCampaign, FlagsThatContradictTheJournalAreErrors) {
  ASSERT_EQ(run(kHunt + "10 --journal=j.jsonl").exit_code, 1);
  const std::string before = read("j.jsonl");
  const auto expect = [&](const std::string& flags, std::string_view says) {
    const Ran ran = run("fuzz --resume=j.jsonl " + flags);
    EXPECT_EQ(ran.exit_code, 2) << flags;
    EXPECT_TRUE(ran.says(says)) << ran.output;
  };
  expect("--seed=8", "--seed=8 contradicts the journal, whose campaign has --seed=9");
  expect("--cases=20", "--cases=20 contradicts");
  expect("--time=1h", "whose campaign has no such flag");
  expect("--mask=causal", "--mask=causal contradicts");
  expect("--part=1/2", "--part=1/2 contradicts the journal, whose campaign has --part=1/1");
  expect("--journal=other.jsonl", "--journal");
  EXPECT_EQ(run(kHunt + "10 --journal=j.jsonl").exit_code, 2) << "it was written over";
  EXPECT_EQ(read("j.jsonl"), before);
  EXPECT_EQ(run("fuzz --resume=j.jsonl --seed=9 --cases=10 --jobs=2").exit_code, 1);
  std::string other = before;
  other.replace(other.find("\"commit\":\"") + 10, 3, "xyz");
  std::ofstream(folder_ / "j.jsonl") << other;
  expect("", "may draw and judge other cases");
}

TEST_F(LongCampaign, PartsHaveTheCasesOfTheWholeAndMergeToIt) {
  ASSERT_EQ(run(kHunt + "400 --json=whole.jsonl").exit_code, 1);
  std::set<std::string> together;
  std::size_t all = 0;
  std::string inputs;
  for (const char* part : {"1", "2", "3"}) {
    const std::string name(part);
    const Ran ran = run(kHunt + "400 --part=" + name + "/3 --journal=j" + name + " --json=v" +
                        name + " --junit=" + name + ".xml --goldens-out=found" + name);
    ASSERT_EQ(ran.exit_code, 1) << ran.output;
    all += cases("v" + name).size();
    together.merge(cases("v" + name));
    inputs += " j" + name + " " + name + ".xml found" + name;
  }
  EXPECT_EQ(together, cases("whole.jsonl"));
  EXPECT_EQ(together.size(), all) << "parts overlap";
  const Ran merged = run("merge out" + inputs);
  EXPECT_EQ(merged.exit_code, 1) << merged.output;
  EXPECT_TRUE(merged.says("FALSIFIED")) << merged.output;
  EXPECT_FALSE(merged.says("INCOMPLETE")) << merged.output;
  EXPECT_EQ(summary("out/summary.jsonl"), summary("whole.jsonl"));
  EXPECT_EQ(run("replay out/golden").exit_code, 1);
  EXPECT_NE(read("out/junit.xml").find("failures=\"1\""), std::string::npos);
  // Once more, from what it wrote.
  EXPECT_EQ(run("merge again out").exit_code, 1);
  EXPECT_EQ(summary("again/summary.jsonl"), summary("whole.jsonl"));
}

// What a task of a Slurm array does, twice as after a requeue, and the merge behind it.
TEST_F(LongCampaign, TheSlurmRecipeRunsItsPartsAndMergesThem) {
  fs::create_directories(folder_ / "build/release");
  fs::create_symlink(SHARDPROOF_BINARY, folder_ / "build/release/shardproof");
  const auto recipe = [&](const std::string& environment, const std::string& arguments) {
    const std::string command = "SLURM_SUBMIT_DIR='" + folder_.string() + "' " + environment +
                                " '" SHARDPROOF_SOURCE "/ci/slurm_array.sh' " + arguments + " >'" +
                                (folder_ / "log").string() + "' 2>&1";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  const std::string campaign = "--regressions=none --subject=column_row_mlp --cases=40";
  const std::string array = "SLURM_ARRAY_JOB_ID=5 SLURM_ARRAY_TASK_COUNT=2 SLURM_ARRAY_TASK_ID=";
  for (const char* task : {"1", "1", "2"}) {
    EXPECT_EQ(recipe(array + task, campaign), 0) << task << read("log");
  }
  EXPECT_EQ(recipe("", "merge 5"), 0) << read("log");
  EXPECT_EQ(last_record("shardproof-5/merged/summary.jsonl")["cases"], 40);
}

TEST_F(LongCampaign, MergeSaysWhatIsMissingForeignOrTwice) {
  const std::string flags =
      "fuzz --regressions=none --subject=single_mlp,column_row_mlp --cases=40 ";
  ASSERT_EQ(run(flags + "--part=1/2 --journal=a.jsonl").exit_code, 0);
  ASSERT_EQ(run(flags + "--part=2/2 --journal=b.jsonl --junit=b.xml").exit_code, 0);
  ASSERT_EQ(run(flags + "--seed=4 --journal=c.jsonl").exit_code, 0);
  ASSERT_EQ(run(flags + "--dtype=f32 --seed=5 --journal=d.jsonl").exit_code, 0);
  EXPECT_EQ(run("merge all a.jsonl b.jsonl c.jsonl b.xml").exit_code, 0);
  fs::copy_file(folder_ / "b.jsonl", folder_ / "twice.jsonl");
  std::ofstream(folder_ / "early.jsonl") << read("b.jsonl").substr(0, read("b.jsonl").size() - 9);
  std::ofstream(folder_ / "foreign.txt") << "nonsense";
  std::ofstream(folder_ / "foreign.xml") << "<testsuites/>";
  std::ofstream(folder_ / "foreign.h5") << "nonsense";
  const auto expect = [&](const std::string& inputs, std::string_view says) {
    const Ran ran = run("merge out " + inputs);
    EXPECT_EQ(ran.exit_code, 2) << inputs;
    EXPECT_TRUE(ran.says(says)) << ran.output;
    fs::remove_all(folder_ / "out");
  };
  expect("a.jsonl", "INCOMPLETE: seed 0: part 2/2 is missing");
  expect("a.jsonl early.jsonl", "early.jsonl ended early");
  expect("b.jsonl twice.jsonl", "judged the same cases");
  expect("c.jsonl d.jsonl", "draw from different cases");
  expect("nothing.jsonl", "nothing.jsonl does not exist");
  for (const char* name : {"foreign.txt", "foreign.xml", "foreign.h5"}) {
    expect(std::string("a.jsonl b.jsonl ") + name, name);
  }
  expect("a.jsonl b.jsonl --require-all", "--require-all");
  EXPECT_EQ(run("merge a.jsonl b.jsonl").exit_code, 2) << "the output was an input";
  EXPECT_EQ(run(flags + "--part=1/2 --require-all").exit_code, 2);
}

// A failure still counts as one and is still shown when there is no room for it.
TEST_F(LongCampaign, WhatCannotBeStoredIsSaidAndTheVerdictStays) {
  std::ofstream(folder_ / "file") << "in the way";
  const auto expect = [&](const std::string& flags, const std::string& before = "") {
    const Ran ran = run(kHunt + "40 " + flags, before);
    EXPECT_EQ(ran.exit_code, 1) << flags << "\n" << ran.output;
    EXPECT_TRUE(ran.says("NOT STORED")) << flags << "\n" << ran.output;
    EXPECT_TRUE(ran.says("shardproof check 'mlp ")) << flags << "\n" << ran.output;
    EXPECT_TRUE(ran.says("FALSIFIED")) << flags << "\n" << ran.output;
  };
  expect("--goldens-out=file");
  expect("--goldens-out=file/below");
  expect("--goldens-out=/proc/nowhere");
  expect("--goldens-out=found", "ulimit -f 4;");
  expect("--json=v.jsonl", "ulimit -f 4;");
  expect("--journal=j.jsonl", "ulimit -f 8;");
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    EXPECT_EQ(entry.path().string().find("partial"), std::string::npos) << entry.path();
  }
}

TEST_F(LongCampaign, RecordsThatAreNotWholeAreNoSuccess) {
  const std::string flags = "fuzz --regressions=none --subject=column_row_mlp --cases=400 ";
  const Ran full = run(flags + "--journal=/dev/full");
  EXPECT_EQ(full.exit_code, 2);
  EXPECT_TRUE(full.says("cannot write /dev/full")) << full.output;
  for (const char* flag : {"--json=r", "--junit=r", "--journal=r"}) {
    const Ran ran = run(flags + flag, "ulimit -f 1;");
    EXPECT_EQ(ran.exit_code, 2) << flag << "\n" << ran.output;
    EXPECT_TRUE(ran.says("HOLDS") && ran.says("NOT STORED: --j")) << flag << "\n" << ran.output;
    fs::remove(folder_ / "r");
  }
}

}  // namespace
}  // namespace shardproof
