#include "harness/check/campaign.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/check/toy_tables_test.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

// Writes down every verdict, in the order in which the campaign reports them.
class Recorder : public Sink {
 public:
  void on_case(const Judged& judged, const Tally& tally) override {
    std::string line =
        fmt::format("{} {} {}", judged.number, name(judged.result.overall), to_text(judged.value));
    for (const PropertyResult& each : judged.result.properties) {
      line += fmt::format(" {}={}", property_name(each.property, tally.tables),
                          name(each.verdict.kind));
    }
    lines.push_back(line);
  }

  std::vector<std::string> lines;
};

struct Ran {
  std::vector<std::string> verdicts;
  std::vector<std::string> failures;  // signature and shrunk case
  KindCounts kinds{};
};

Ran run(const Restrictions& restrictions, int jobs, std::uint64_t cases, std::string seed = "5") {
  const Tables tables = toy_tables();
  CampaignOptions options;
  options.seed = std::move(seed);
  options.cases = cases;
  options.jobs = jobs;
  Recorder recorder;
  const Tally tally = run_campaign(tables, make_domain(restrictions, tables), options, {&recorder});
  Ran ran{recorder.lines, {}, tally.kinds};
  for (const Failure& failure : tally.failures) {
    ran.failures.push_back(failure.signature + ": " + failure.shrunk);
  }
  return ran;
}

TEST(Campaign, VerdictsAndFailuresDoNotDependOnTheNumberOfWorkers) {
  const Restrictions restrictions{.subjects = {"right", "wrong", "mean", "segfault", "exits"}};
  const Ran one = run(restrictions, 1, 400);
  const Ran three = run(restrictions, 3, 400);
  EXPECT_EQ(one.verdicts.size(), 400U);
  EXPECT_EQ(one.verdicts, three.verdicts);
  EXPECT_EQ(one.failures, three.failures);
  EXPECT_NE(one.verdicts, run(restrictions, 1, 400, "6").verdicts);
}

TEST(Campaign, DistinctFailuresAreToldApartAndShrunk) {
  const Ran ran = run({.subjects = {"wrong", "mean", "segfault"}}, 2, 400);
  ASSERT_EQ(ran.failures.size(), 4U);
  const std::string tail = " world=sim device=cpu mesh=tp:1,cp:1";
  const auto expect = [&](const std::string& signature, const std::string& problem,
                          const std::string& subject) {
    const std::string want = signature + ": " + problem + " | " + subject + tail;
    EXPECT_NE(std::find(ran.failures.begin(), ran.failures.end(), want), ran.failures.end())
        << want;
  };
  expect("wrong / believer / falsified / wrong / out",
         "toy heads=1 q=7 kv=1 dim=1 mask=causal dtype=f32 data=normal seed=0", "wrong");
  expect("mean / believer / falsified / wrong / out",
         "toy heads=1 q=4 kv=1 dim=1 mask=none dtype=f32 data=normal seed=0", "mean");
  expect("mean / believer / falsified / wrong / lse",
         "toy heads=1 q=1 kv=9 dim=1 mask=none dtype=f32 data=normal seed=0", "mean");
  expect("segfault / survives / crashed / signal 11 (Segmentation fault)",
         "toy heads=1 q=5 kv=1 dim=1 mask=none dtype=f32 data=normal seed=0", "segfault");
}

TEST(Campaign, CountsEveryKindOfVerdict) {
  const Ran ran = run({.subjects = {"right", "wrong"}}, 2, 1000);
  std::uint64_t all = 0;
  for (std::uint64_t count : ran.kinds) all += count;
  EXPECT_EQ(all, 1000U);
  for (VerdictKind kind : {VerdictKind::kHolds, VerdictKind::kFalsified, VerdictKind::kRefused,
                           VerdictKind::kDiscarded}) {
    EXPECT_GT(ran.kinds[static_cast<std::size_t>(kind)], 0U) << name(kind);
  }
}

TEST(Campaign, StoredCasesRunFirst) {
  const Tables tables = toy_tables();
  CampaignOptions options;
  options.cases = 3;
  options.stored = {
      {"toy heads=2 q=5 kv=6 dim=7 mask=none dtype=f32 data=normal seed=9 | wrong "
       "world=sim device=cpu mesh=1 layout=contiguous schedule=0",
       "some.case:1"}};
  Recorder recorder;
  const Tally tally =
      run_campaign(tables, make_domain({.subjects = {"right"}}, tables), options, {&recorder});
  ASSERT_EQ(recorder.lines.size(), 4U);
  EXPECT_EQ(recorder.lines[0].substr(0, 15), "0 holds toy hea");
  EXPECT_NE(recorder.lines[0].find("| wrong"), std::string::npos);
  EXPECT_EQ(tally.stored, 1U);
}

TEST(Campaign, EndsWhenItsTimeIsOver) {
  const Tables tables = toy_tables();
  CampaignOptions options;
  options.seconds = 0.3;
  const Tally tally =
      run_campaign(tables, make_domain({.subjects = {"right"}}, tables), options, {});
  EXPECT_GT(tally.cases(), 10U);
  EXPECT_GE(tally.seconds, 0.3);
  EXPECT_LT(tally.seconds, 5);
}

TEST(Campaign, EndsAfterTheCaseThatIsEnough) {
  const Tables tables = toy_tables();
  CampaignOptions options;
  options.cases = 1000;
  options.jobs = 2;
  options.is_enough = [](const Judged& judged) { return judged.number == 41; };
  const Tally tally =
      run_campaign(tables, make_domain({.subjects = {"right"}}, tables), options, {});
  EXPECT_EQ(tally.cases(), 42U);
}

// The disk is full, or the folder cannot be written.
TEST(Campaign, GoesOnWhenAFailureCannotBeStored) {
  class FullStore : public FailureStore {
    void store(const CaseReport&, const Judgement&, const std::filesystem::path&) override {
      throw Error("no space left");
    }
    void store_lost(const Case&, std::string_view, const Verdict&,
                    const std::filesystem::path&) override {
      throw Error("no space at all");
    }
  };
  const Tables tables = toy_tables();
  FullStore store;
  CampaignOptions options;
  options.seed = "5";
  options.cases = 400;
  options.store = &store;
  options.goldens = testing::TempDir() + "shardproof_full_" + std::to_string(getpid());
  const Restrictions restrictions{.subjects = {"wrong", "mean", "segfault"}};
  const Tally tally = run_campaign(tables, make_domain(restrictions, tables), options, {});
  EXPECT_EQ(tally.cases(), 400U);
  ASSERT_EQ(tally.failures.size(), 4U);
  for (const Failure& failure : tally.failures) {
    EXPECT_EQ(failure.golden, "");
    EXPECT_EQ(failure.unstored,
              failure.subject == "segfault" ? "no space at all" : "no space left");
    EXPECT_EQ(failure.verdict.kind,
              failure.subject == "segfault" ? VerdictKind::kCrashed : VerdictKind::kFalsified);
  }
  std::filesystem::remove_all(options.goldens);
}

// Every fourth case is a pair's turn, so that luck is not needed.
TEST(Campaign, CoversThePairsOfItsDomainInFourCasesEach) {
  const Tables tables = toy_tables();
  CampaignOptions options;
  const Domain domain = make_domain({.subjects = {"right"}, .mesh = "tp=1..2,cp=1..2"}, tables);
  options.cases = 4 * possible_pairs(domain).size();
  const Coverage::Count total = run_campaign(tables, domain, options, {}).coverage.total();
  // mask x dtype, mask x layout, ...: 9 masks, 5 dtypes, 3 layouts, 4 meshes, 11 recipes.
  const Index among =
      9 * 5 + 9 * 3 + 9 * 4 + 9 * 11 + 5 * 3 + 5 * 4 + 5 * 11 + 3 * 4 + 3 * 11 + 4 * 11;
  EXPECT_EQ(total.possible, among + 9 + 5 + 3 + 4 + 11);
  EXPECT_EQ(total.covered, total.possible);
}

TEST(Sinks, JsonHasARecordForEveryVerdictThatDoesNotHold) {
  const std::string path = testing::TempDir() + "shardproof_json_" + std::to_string(getpid());
  const Tables tables = toy_tables();
  CampaignOptions options;
  options.cases = 500;
  std::map<std::string, std::uint64_t> seen;
  nlohmann::json summary;
  {
    const auto sink = make_json_sink(path);
    run_campaign(tables, make_domain({.subjects = {"right", "wrong", "exits"}}, tables), options,
                 {sink.get()});
  }
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json record = nlohmann::json::parse(line);
    if (record["record"] == "verdict") {
      ++seen[record["verdict"]];
      EXPECT_NO_THROW(parse_case(record["case"].get<std::string>(), tables.vocabulary()));
    }
    summary = record;
  }
  EXPECT_EQ(summary["record"], "summary");
  EXPECT_EQ(summary["cases"], 500);
  EXPECT_FALSE(seen.contains("holds"));
  for (const char* kind : {"falsified", "refused", "discarded", "crashed"}) {
    EXPECT_GT(seen[kind], 0U) << kind;
  }
  for (const auto& [kind, count] : seen) EXPECT_EQ(summary[kind], count) << kind;
  for (const char* key :
       {"vacuous", "deadlocked", "timed_out", "seconds", "cases_per_second", "seed"}) {
    EXPECT_TRUE(summary.contains(key)) << key;
  }
  std::filesystem::remove(path);
}

TEST(Sinks, AFileThatCannotBeWrittenIsAnError) {
  EXPECT_THROW(make_json_sink("/nowhere/at/all.json"), Error);
  EXPECT_THROW(make_junit_sink("/nowhere/at/all.xml"), Error);
}

TEST(Sinks, ConsoleShowsTheFailureAndHowToRepeatIt) {
  std::ostringstream out;
  const auto sink = make_console_sink(out, false);
  const Tables tables = toy_tables();
  CampaignOptions options;
  options.cases = 200;
  run_campaign(tables, make_domain({.subjects = {"wrong"}}, tables), options, {sink.get()});
  const std::string text = out.str();
  EXPECT_NE(text.find("200 cases in"), std::string::npos);
  EXPECT_NE(text.find("out is wrong"), std::string::npos);
  EXPECT_NE(text.find("shardproof check 'toy heads=1 q=7"), std::string::npos) << text;
  EXPECT_NE(text.find("FALSIFIED: "), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << "no terminal codes in plain output";
}

TEST(Sinks, JunitEscapesAndCounts) {
  const std::string path = testing::TempDir() + "shardproof_junit_" + std::to_string(getpid());
  const Tables tables = toy_tables();
  CampaignOptions options;
  options.cases = 200;
  {
    const auto sink = make_junit_sink(path);
    run_campaign(tables, make_domain({.subjects = {"right", "wrong"}}, tables), options,
                 {sink.get()});
  }
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_NE(text.str().find("tests=\"2\" failures=\"1\" skipped=\"0\""), std::string::npos)
      << text.str();
  EXPECT_NE(text.str().find("<testcase classname=\"wrong\" name=\"believer\">\n<failure"),
            std::string::npos);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace shardproof
