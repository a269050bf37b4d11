#include "harness/check/workers.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "harness/check/evaluator.h"
#include "harness/check/toy_tables_test.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

std::string text(std::string_view subject, int q) {
  return "toy heads=1 q=" + std::to_string(q) +
         " kv=1 dim=1 mask=none dtype=f32 data=normal seed=0 | " + std::string(subject) +
         " world=sim device=cpu mesh=1 layout=contiguous schedule=0";
}

// What becomes of each text, by its position.
std::map<std::uint64_t, CaseResult> evaluate(const std::vector<std::string>& texts, int count,
                                             const WorkerLimits& limits) {
  const Tables tables = toy_tables();
  CaseEvaluator evaluator(tables, tables.properties, nullptr, nullptr);
  Workers workers(evaluator, count, limits);
  for (std::size_t i = 0; i < texts.size(); ++i) workers.give({{.number = i, .text = texts[i]}});
  std::map<std::uint64_t, CaseResult> results;
  for (int rounds = 0; results.size() < texts.size() && rounds < 300; ++rounds) {
    for (Finished& finished : workers.wait(0.1)) {
      results[finished.item.number] = std::move(finished.result);
    }
  }
  EXPECT_EQ(workers.outstanding(), 0U);
  return results;
}

CaseResult fate(std::string_view subject, const WorkerLimits& limits = {}) {
  const auto results = evaluate({text("right", 9), text(subject, 9), text("right", 9)}, 1, limits);
  EXPECT_EQ(results.size(), 3U);
  EXPECT_EQ(results.at(0).overall, VerdictKind::kHolds);
  EXPECT_EQ(results.at(2).overall, VerdictKind::kHolds) << "the case after it did not survive";
  return results.at(1);
}

std::string symptom(const CaseResult& result) {
  return result.first_failure() ? result.first_failure()->verdict.symptom : "";
}

TEST(Workers, ASegmentationFaultIsAVerdict) {
  const CaseResult result = fate("segfault");
  EXPECT_EQ(result.overall, VerdictKind::kCrashed);
  EXPECT_NE(symptom(result).find("signal 11"), std::string::npos) << symptom(result);
}

TEST(Workers, AnExitIsAVerdict) {
  const CaseResult result = fate("exits");
  EXPECT_EQ(result.overall, VerdictKind::kCrashed);
  EXPECT_EQ(symptom(result), "exit code 3");
}

TEST(Workers, AnAbortIsAVerdict) { EXPECT_EQ(fate("aborts").overall, VerdictKind::kCrashed); }

TEST(Workers, AHangIsAVerdict) {
  const CaseResult result = fate("hangs", {.case_seconds = 0.3});
  EXPECT_EQ(result.overall, VerdictKind::kTimedOut);
  EXPECT_EQ(symptom(result), "timed out");
}

TEST(Workers, ExhaustedMemoryIsAVerdict) {
  const CaseResult result = fate("hungry", {.memory_bytes = std::uint64_t{1} << 29});
  EXPECT_EQ(result.overall, VerdictKind::kCrashed);
  EXPECT_EQ(symptom(result), "memory exhausted");
}

TEST(Workers, WhatASubjectPrintsGoesNowhere) {
  EXPECT_EQ(fate("noisy").overall, VerdictKind::kHolds);
}

TEST(Workers, TheLastWordsOfACrashAreKept) {
  class Talker : public Evaluator {
    void start(const WorkerLimits&) override {}
    double prepare(const Item&) override { return 1; }
    CaseResult evaluate(const Item&) override {
      require(false, "two is not three");
      return {};
    }
  };
  Talker talker;
  Workers workers(talker, 1, {});
  workers.give({{.number = 1}});
  std::vector<Finished> finished;
  while (finished.empty()) finished = workers.wait(1);
  EXPECT_NE(finished[0].result.first_failure()->verdict.message.find("two is not three"),
            std::string::npos);
}

TEST(Workers, AFailureToStartIsTroubleAndNoVerdict) {
  class Broken : public Evaluator {
    void start(const WorkerLimits&) override { throw Error("no device"); }
    double prepare(const Item&) override { return 1; }
    CaseResult evaluate(const Item&) override { return {}; }
  };
  Broken broken;
  Workers workers(broken, 1, {});
  workers.give({{.number = 1}});
  std::vector<Finished> finished;
  while (finished.empty()) finished = workers.wait(1);
  EXPECT_EQ(finished[0].result.trouble, "no device");
}

TEST(Workers, EveryItemComesBackOnceWhateverDies) {
  std::vector<std::string> texts;
  for (int i = 0; i < 60; ++i) {
    texts.push_back(text(i % 3 == 0 ? "segfault" : i % 3 == 1 ? "right" : "exits", 9));
  }
  const auto results = evaluate(texts, 3, {});
  ASSERT_EQ(results.size(), 60U);
  for (const auto& [number, result] : results) {
    EXPECT_EQ(result.overall, number % 3 == 1 ? VerdictKind::kHolds : VerdictKind::kCrashed);
  }
}

// The processes whose parent is `pid`.
std::set<int> children(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  std::set<int> result;
  for (int child = 0; file >> child;) result.insert(child);
  return result;
}

bool is_running(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return static_cast<bool>(file >> number >> name >> state) && state != "Z";
}

TEST(Workers, DieWithTheirDriver) {
  const pid_t driver = fork();
  if (driver == 0) {
    const Tables tables = toy_tables();
    CaseEvaluator evaluator(tables, tables.properties, nullptr, nullptr);
    Workers workers(evaluator, 3, {});
    workers.give({{.number = 0, .text = text("hangs", 9)}});
    for (;;) workers.wait(1);
  }
  std::set<int> workers;
  for (int i = 0; i < 200 && workers.size() < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    workers = children(driver);
  }
  ASSERT_EQ(workers.size(), 3U);
  kill(driver, SIGKILL);
  waitpid(driver, nullptr, 0);
  const auto any_runs = [&] {
    return std::any_of(workers.begin(), workers.end(), [](int pid) { return is_running(pid); });
  };
  for (int i = 0; i < 200 && any_runs(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_FALSE(any_runs());
}

}  // namespace
}  // namespace shardproof
