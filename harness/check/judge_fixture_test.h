// A judge of the fake subject in a world that numbers its runs.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "harness/check/fake.h"
#include "harness/check/judge.h"

namespace shardproof::fake {

// Schedules that end badly.
inline constexpr std::uint64_t kDeadlocks = 1;
inline constexpr std::uint64_t kThrows = 2;

// Numbers its runs in Outcome::message.
class FakeWorld : public World {
 public:
  Outcome run(const Case& value, const Subject&, const RunOptions&) override {
    Outcome outcome = right_outcome(value);
    outcome.message = std::to_string(++runs_);
    if (value.placement.schedule == kDeadlocks) outcome.ending = Ending::kDeadlocked;
    if (value.placement.schedule == kThrows) outcome.ending = Ending::kThrew;
    return outcome;
  }

 private:
  int runs_ = 0;
};

inline Case with_schedule(Case value, std::uint64_t schedule) {
  value.placement.schedule = schedule;
  return value;
}

// Two properties look at the same further run.
inline std::vector<Case> another_schedule(const Case& value, const Subject&) {
  return {with_schedule(value, 101)};
}

inline Verdict name_runs(const Evidence& evidence) {
  Verdict verdict;
  verdict.message = evidence.base.outcome.message;
  for (const Run* run : evidence.variants) verdict.message += " " + run->outcome.message;
  return verdict;
}

inline const Property kAlone{.name = "alone", .claim = "", .judge = name_runs};
inline const Property kFirst{
    .name = "first", .claim = "", .variants = another_schedule, .judge = name_runs};
class JudgeTest : public testing::Test {
 protected:
  JudgeTest() {
    tables_.operators = {&op()};
    tables_.subjects = {&subject_};
    tables_.properties = {&kAlone, &kFirst};
    tables_.worlds = {{.name = "fake",
                       .summary = "",
                       .unavailable = [](const std::vector<DeviceEntry>&) { return std::string(); },
                       .make = [](std::vector<DeviceEntry>) -> std::unique_ptr<World> {
                         return std::make_unique<FakeWorld>();
                       }}};
  }

  CaseReport judge(std::vector<const Property*> properties, std::uint64_t schedule = 100) {
    Judge fresh(tables_);
    return fresh.judge(with_schedule(small_case(), schedule), properties);
  }

  Subject subject_ = subject();
  Tables tables_;
};

}  // namespace shardproof::fake
