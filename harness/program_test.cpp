// The program as its users run it: exit codes, messages, files.
#include <sys/wait.h>

#include <csignal>
#include <thread>

#include "harness/program_fixture_test.h"

namespace shardproof {
namespace {

TEST_F(Program, WithoutACommandListsThem) {
  const Ran ran = run("");
  EXPECT_EQ(ran.exit_code, 2);
  for (const char* command : {"fuzz", "check", "replay", "show", "list", "mutants", "doctor"}) {
    EXPECT_TRUE(ran.says(command)) << ran.output;
    const Ran help = run(std::string(command) + " --help");
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_TRUE(help.says("Example")) << help.output;
  }
  EXPECT_EQ(run("--version").exit_code, 0);
}

TEST_F(Program, UnknownFlagsAndCommandsListTheChoices) {
  const Ran flag = run("fuzz --cases=1 --sede=3");
  EXPECT_EQ(flag.exit_code, 2);
  EXPECT_TRUE(flag.says("--sede=3") && flag.says("--seed")) << flag.output;
  const Ran command = run("fuz");
  EXPECT_EQ(command.exit_code, 2);
  EXPECT_TRUE(command.says("fuz") && command.says("mutants")) << command.output;
}

TEST_F(Program, BadValuesAreErrorsThatNameThem) {
  const auto expect = [&](const std::string& arguments, std::string_view value,
                          std::string_view hint) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.exit_code, 2) << arguments;
    EXPECT_TRUE(ran.says(value) && ran.says(hint)) << arguments << "\n" << ran.output;
  };
  expect("fuzz --time=60", "'60'", "60s");
  expect("fuzz --time=-1s", "'-1s'", "above 0");
  expect("fuzz --time=0s", "'0s'", "above 0");
  expect("fuzz --mask=casual", "'casual'", "causal");
  expect("fuzz --subject=ring", "'ring'", "ring_attention");
  expect("fuzz --mesh=xp=2", "'xp=2'", "tp=N");
  expect("fuzz --cases=many", "many", "--cases");
  expect("fuzz --operator=mlp --mask=causal", "mask", "none of the subjects");
  expect("fuzz --cases=1 --jobs=-2", "-2", "--jobs");
  expect("fuzz --cases=1 --json=/no/such/place.json", "/no/such/place.json", "cannot write");
  expect("fuzz --regressions=no/such/folder", "no/such/folder", "does not exist");
  expect("check nonsense", "case", "'|'");
  expect("list colours", "'colours'", "subjects");
  expect("mutants --only=nobody", "'nobody'", "choices");
  expect("replay no/such/file.h5", "no/such/file.h5", "does not exist");
  expect("show no/such/file.h5", "no/such/file.h5", "");
}

TEST_F(Program, ListsEverything) {
  for (const char* what : {"subjects", "operators", "properties", "masks", "dtypes", "data",
                           "layouts", "views", "worlds", "devices", "fields", "mutants"}) {
    const Ran ran = run(std::string("list ") + what);
    EXPECT_EQ(ran.exit_code, 0) << what;
    EXPECT_GT(ran.output.size(), 3U) << what;
  }
  EXPECT_TRUE(run("list subjects").says("ring_attention"));
}

TEST_F(Program, DoctorSaysWhatCanRun) {
  const Ran ran = run("doctor");
  EXPECT_EQ(ran.exit_code, 0);
  for (const char* word : {"version", "blas", "processors", "memory", "sim", "cpu"}) {
    EXPECT_TRUE(ran.says(word)) << ran.output;
  }
}

TEST_F(Program, AShortCampaignHoldsAndWritesItsRecords) {
  const Ran ran = run("fuzz --cases=300 --jobs=2 --seed=3 --json=a.jsonl --junit=a.xml");
  EXPECT_EQ(ran.exit_code, 0) << ran.output;
  EXPECT_TRUE(ran.says("HOLDS")) << ran.output;
  const nlohmann::json summary = last_record("a.jsonl");
  EXPECT_EQ(summary["record"], "summary");
  EXPECT_GE(summary["cases"], 300);
  EXPECT_EQ(summary["falsified"], 0);
  EXPECT_EQ(summary["seed"], "3");
  EXPECT_NE(read("a.xml").find("<testsuite name=\"shardproof\""), std::string::npos);
}

TEST_F(Program, TheSameSeedGivesTheSameVerdicts) {
  run("fuzz --cases=300 --jobs=1 --seed=abc --json=a.jsonl");
  run("fuzz --cases=300 --jobs=3 --seed=abc --json=b.jsonl");
  std::istringstream one(read("a.jsonl"));
  std::istringstream other(read("b.jsonl"));
  std::string a;
  std::string b;
  int compared = 0;
  while (std::getline(one, a) && std::getline(other, b)) {
    if (nlohmann::json::parse(a)["record"] == "summary") break;
    EXPECT_EQ(a, b);
    ++compared;
  }
  EXPECT_EQ(nlohmann::json::parse(b)["record"], "summary");
  EXPECT_GT(compared, 0);
  run("fuzz --cases=300 --jobs=2 --seed=abd --json=c.jsonl");
  EXPECT_EQ(last_record("a.jsonl")["digest"], last_record("b.jsonl")["digest"]);
  EXPECT_NE(last_record("a.jsonl")["digest"], last_record("c.jsonl")["digest"]);
}

TEST_F(Program, ACampaignThatPassedOverSomethingSaysSoWhenAsked) {
  const std::string flags = "fuzz --regressions=. --subject=column_row_mlp,single_mlp --cases=";
  EXPECT_EQ(run(flags + "20").exit_code, 0);
  const Ran few = run(flags + "20 --require-all --property=matches_reference");
  EXPECT_EQ(few.exit_code, 2);
  EXPECT_TRUE(few.says("pairs of values were judged")) << few.output;
  const Ran idle = run(flags + "20 --require-all --property=causal_prefix");
  EXPECT_EQ(idle.exit_code, 2);
  EXPECT_TRUE(idle.says("--require-all: no case was judged")) << idle.output;
  // world_invariant speaks of another world than this one.
  const std::string asked = " --require-all --property=matches_reference,world_invariant";
  const Ran all = run(flags + "4000" + asked);
  EXPECT_EQ(all.exit_code, 0) << all.output;
}

TEST_F(Program, ACampaignThatJudgesNothingIsNoSuccess) {
  const Ran ran = run("fuzz --cases=0 --regressions=.");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(ran.says("NOTHING CHECKED")) << ran.output;
}

TEST_F(Program, AStoredCaseThatDoesNotParseIsAnErrorThatNamesItsLine) {
  std::ofstream(folder_ / "old.case") << "# a comment\n\nnonsense\n";
  const Ran ran = run("fuzz --cases=1 --regressions=.");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(ran.says("old.case:3")) << ran.output;
}

// From the hunt of a mutant to a golden that is shown and fails again.
TEST_F(Program, AMutantIsKilledShrunkStoredShownAndReplayed) {
  const std::string name = "mlp_bias_on_every_rank";
  const Ran hunt = run("mutants --only=" + name + " --time=30s --goldens-out=found --json=m.jsonl");
  ASSERT_EQ(hunt.exit_code, 0) << hunt.output;
  EXPECT_TRUE(hunt.says("1 killed by the property they name, 0 survived")) << hunt.output;
  std::istringstream records(read("m.jsonl"));
  std::string line;
  std::getline(records, line);
  const nlohmann::json record = nlohmann::json::parse(line);
  EXPECT_EQ(record["killed"], true);
  EXPECT_EQ(last_record("m.jsonl")["killed"], 1);

  const std::string shrunk = record["shrunk"];
  const Ran check = run("check '" + shrunk + "'");
  EXPECT_EQ(check.exit_code, 1) << check.output;
  EXPECT_TRUE(check.says("falsified") && check.says("error/T2")) << check.output;
  const std::string golden = record["golden"];
  const Ran replay = run("replay '" + golden + "'");
  EXPECT_EQ(replay.exit_code, 1) << replay.output;
  EXPECT_TRUE(replay.says("still fails")) << replay.output;
  EXPECT_EQ(run("replay found").exit_code, 1);
  const Ran show = run("show '" + golden + "'");
  EXPECT_EQ(show.exit_code, 0);
  EXPECT_TRUE(show.says(name)) << show.output;
  const Ran first = run("fuzz --cases=10 --goldens='" + golden + "'");
  EXPECT_EQ(first.exit_code, 1) << first.output;
}

// In the order of the files, whatever the number of workers.
TEST_F(Program, AFolderOfGoldensIsReplayedByAllWorkers) {
  const fs::path sample = fs::path(SHARDPROOF_SOURCE) / "golden/data/version_1.h5";
  fs::create_directory(folder_ / "found");
  for (int i = 10; i < 50; ++i) {
    fs::copy_file(sample, folder_ / ("found/" + std::to_string(i) + ".h5"));
  }
  std::ofstream(folder_ / "found/30_foreign.h5") << "this is no golden";
  std::ofstream(folder_ / "found/60.case")
      << "mlp tokens=2 features=1 hidden=1 outputs=1 activation=relu dtype=f32 data=normal seed=0 "
         "| column_row_mlp world=sim device=cpu mesh=tp:2\n";
  const Ran one = run("replay found --jobs=1");
  EXPECT_EQ(one.exit_code, 1) << one.output;
  EXPECT_TRUE(one.says("40 failing, 1 not failing, 1 unreadable")) << one.output;
  EXPECT_TRUE(one.says(" 1 of 42  still fails  found/10.h5")) << one.output;
  EXPECT_TRUE(one.says("22 of 42  unreadable   found/30_foreign.h5")) << one.output;
  EXPECT_TRUE(one.says("42 of 42  holds        found/60.case:1")) << one.output;
  EXPECT_EQ(run("replay found --jobs=3").output, one.output);
}

TEST_F(Program, AForeignFileIsUnreadableAndNoCrash) {
  std::ofstream(folder_ / "foreign.h5") << "this is no golden";
  const Ran replay = run("replay foreign.h5");
  EXPECT_EQ(replay.exit_code, 2) << replay.output;
  EXPECT_TRUE(replay.says("unreadable"));
  EXPECT_EQ(run("show foreign.h5").exit_code, 2);
}

TEST_F(Program, AnInterruptEndsWithTheSummary) {
  const std::string log = (folder_ / "log").string();
  const pid_t child = fork();
  if (child == 0) {
    if (!freopen(log.c_str(), "w", stdout) || chdir(folder_.c_str()) != 0) _exit(9);
    execl(SHARDPROOF_BINARY, "shardproof", "fuzz", "--time=60s", "--operator=mlp", nullptr);
    _exit(9);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_NE(read("log").find("interrupted"), std::string::npos) << read("log");
  EXPECT_NE(read("log").find("HOLDS"), std::string::npos);
}

}  // namespace
}  // namespace shardproof
