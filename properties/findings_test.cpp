// The properties that judge what the world saw ranks do, and how the run ended.
#include <gtest/gtest.h>

#include "harness/check/fake.h"
#include "properties/properties.h"

namespace shardproof {

const Property& no_deadlock_property();
const Property& replicas_agree_property();
const Property& inputs_untouched_property();
const Property& every_output_written_property();
const Property& nothing_out_of_bounds_property();
const Property& buffers_respected_property();

namespace {

Verdict judge(const Property& property, const Outcome& outcome) {
  const Subject subject = fake::subject();
  Run run = fake::right_run(fake::small_case(), subject);
  run.outcome = outcome;
  return property.judge({run, {}});
}

Outcome with_finding(Breach breach) {
  Outcome outcome = fake::right_outcome(fake::small_case());
  outcome.findings.push_back({breach, 3, "dk", 17, "some detail"});
  return outcome;
}

TEST(Findings, EachBreachFalsifiesItsPropertyAndNoOther) {
  const std::vector<std::pair<Breach, const Property*>> pairs{
      {Breach::kGuardBand, &nothing_out_of_bounds_property()},
      {Breach::kUnwritten, &every_output_written_property()},
      {Breach::kInputChanged, &inputs_untouched_property()},
      {Breach::kReplicasDiffer, &replicas_agree_property()},
      {Breach::kLeakedRequest, &buffers_respected_property()},
      {Breach::kInFlightChanged, &buffers_respected_property()},
  };
  for (const auto& [breach, guilty] : pairs) {
    for (const auto& [other, property] : pairs) {
      const Verdict verdict = judge(*property, with_finding(breach));
      const auto want = property == guilty ? VerdictKind::kFalsified : VerdictKind::kHolds;
      EXPECT_EQ(verdict.kind, want) << name(breach) << " / " << property->name;
    }
  }
}

TEST(Findings, TheVerdictNamesRankTensorAndElement) {
  const Verdict verdict = judge(replicas_agree_property(), with_finding(Breach::kReplicasDiffer));
  EXPECT_EQ(verdict.tensor, "dk");
  EXPECT_EQ(verdict.element, 17);
  EXPECT_EQ(verdict.symptom, "replicas differ");
  EXPECT_NE(verdict.message.find("rank 3"), std::string::npos);
  EXPECT_NE(verdict.message.find("some detail"), std::string::npos);
}

TEST(NoDeadlock, SaysHowARunEnded) {
  Outcome outcome;
  outcome.message = "rank 0 waits for rank 1";
  const std::vector<std::pair<Ending, VerdictKind>> pairs{
      {Ending::kCompleted, VerdictKind::kHolds},   {Ending::kDeadlocked, VerdictKind::kDeadlocked},
      {Ending::kThrew, VerdictKind::kCrashed},     {Ending::kCrashed, VerdictKind::kCrashed},
      {Ending::kTimedOut, VerdictKind::kTimedOut}, {Ending::kMismatched, VerdictKind::kDiscarded}};
  for (const auto& [ending, kind] : pairs) {
    outcome.ending = ending;
    const Verdict verdict = judge(no_deadlock_property(), outcome);
    EXPECT_EQ(verdict.kind, kind) << name(ending);
    if (!is_failure(kind)) continue;
    EXPECT_EQ(verdict.message, "rank 0 waits for rank 1");
  }
}

}  // namespace
}  // namespace shardproof
