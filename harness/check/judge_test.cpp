#include "harness/check/judge.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/check/judge_fixture_test.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

using namespace fake;

const Property kSecond{
    .name = "second", .claim = "", .variants = another_schedule, .judge = name_runs};
const Property kRepeat{
    .name = "repeat",
    .claim = "",
    .variants = [](const Case& value, const Subject&) { return std::vector<Case>{value}; },
    .judge = name_runs};
const Property kUnsupported{.name = "unsupported",
                            .claim = "",
                            .variants =
                                [](const Case& value, const Subject&) {
                                  Case other = value;
                                  other.placement.mesh.axes[0].size = 7;
                                  return std::vector<Case>{other};
                                },
                            .judge = name_runs};
const Property kOneOfTwo{.name = "one_of_two",
                         .claim = "",
                         .variants =
                             [](const Case& value, const Subject& subject) {
                               auto cases = kUnsupported.variants(value, subject);
                               cases.push_back(with_schedule(value, 102));
                               return cases;
                             },
                         .judge = name_runs};
const Property kNeverApplies{
    .name = "never_applies",
    .claim = "",
    .inapplicable = [](const Case&, const Subject&) { return std::string("because"); },
    .judge = [](const Evidence&) { return Verdict::falsified("x", ""); }};
const Property kBadVariant{
    .name = "bad_variant",
    .claim = "",
    .variants = [](const Case& value,
                   const Subject&) { return std::vector<Case>{with_schedule(value, kDeadlocks)}; },
    .judge = name_runs};
// Three runs are named; the verdict is no failure from the second on.
const Property kByAll{.name = "by_all",
                      .claim = "",
                      .variants =
                          [](const Case& value, const Subject&) {
                            return std::vector<Case>{value, value, value};
                          },
                      .judge =
                          [](const Evidence& evidence) {
                            Verdict verdict = name_runs(evidence);
                            const bool fails = evidence.variants.size() == 1;
                            if (fails) verdict.kind = VerdictKind::kFalsified;
                            return verdict;
                          },
                      .fails_by_all = true};
const Property kEndings{
    .name = "endings",
    .claim = "",
    .judge = [](const Evidence& evidence) { return verdict_of_ending(evidence.base.outcome); },
    .judges_endings = true};
const Property kReference{
    .name = "matches_reference", .claim = "", .judge = [](const Evidence& evidence) {
      const ExpectedTensor& likely = evidence.base.expected(Effort::kLikely).tensors[0];
      if (likely.worst[0] < 1e9) return Verdict::falsified("too much effort", "");
      const ExpectedTensor& all = evidence.base.expected(Effort::kAll).tensors[0];
      if (!(all.worst[0] < 1)) return Verdict::falsified("too little effort", "");
      // Asking for less gives what is known already.
      const ExpectedTensor& again = evidence.base.expected(Effort::kLikely).tensors[0];
      return again.worst[0] < 1 ? Verdict::vacuous("") : Verdict::falsified("evaluated twice", "");
    }};

TEST_F(JudgeTest, MakesARunThatSeveralPropertiesNeedOnce) {
  const CaseReport report = judge({&kAlone, &kFirst, &kSecond});
  ASSERT_EQ(report.judgements.size(), 3u);
  EXPECT_EQ(report.judgements[0].verdict.message, "1");
  EXPECT_EQ(report.judgements[1].verdict.message, "1 2");
  EXPECT_EQ(report.judgements[2].verdict.message, "1 2");
  EXPECT_EQ(report.overall, VerdictKind::kHolds);
  EXPECT_EQ(report.base->outcome.message, "1");
}

TEST_F(JudgeTest, RepeatsTheBaseWhenAVariantEqualsIt) {
  const CaseReport report = judge({&kRepeat, &kFirst});
  EXPECT_EQ(report.judgements[0].verdict.message, "1 2");
  EXPECT_EQ(report.judgements[1].verdict.message, "1 3");
}

TEST_F(JudgeTest, NoPropertiesMeansAllOfTheTable) { EXPECT_EQ(judge({}).judgements.size(), 2u); }

TEST_F(JudgeTest, LeavesOutVariantsThatAreNotSupported) {
  const CaseReport report = judge({&kUnsupported, &kOneOfTwo});
  EXPECT_EQ(report.judgements[0].verdict.kind, VerdictKind::kDiscarded);
  EXPECT_EQ(report.judgements[1].verdict.message, "1 2");
}

TEST_F(JudgeTest, StopsAtTheFirstVerdictThatIsFinal) {
  const CaseReport report = judge({&kByAll});
  EXPECT_EQ(report.overall, VerdictKind::kHolds);
  EXPECT_EQ(report.judgements[0].verdict.message, "1 2 3");
}

TEST_F(JudgeTest, DiscardsWithTheReasonWhereAPropertyDoesNotApply) {
  const CaseReport report = judge({&kNeverApplies});
  EXPECT_EQ(report.judgements[0].verdict.kind, VerdictKind::kDiscarded);
  EXPECT_EQ(report.judgements[0].verdict.message, "because");
  EXPECT_EQ(report.overall, VerdictKind::kDiscarded);
}

TEST_F(JudgeTest, ABadEndingIsJudgedByThosePropertiesAlone) {
  const CaseReport report = judge({&kAlone, &kEndings, &kFirst}, kDeadlocks);
  ASSERT_EQ(report.judgements.size(), 1u);
  EXPECT_EQ(report.judgements[0].property, &kEndings);
  EXPECT_EQ(report.overall, VerdictKind::kDeadlocked);
}

TEST_F(JudgeTest, ABadEndingIsNeverLost) {
  const CaseReport report = judge({&kAlone}, kThrows);
  EXPECT_EQ(report.overall, VerdictKind::kCrashed);
  ASSERT_NE(report.first_failure(), nullptr);
  EXPECT_EQ(report.first_failure()->verdict.symptom, "threw");
}

TEST_F(JudgeTest, AVariantThatEndsBadlyFalsifiesByItsEnding) {
  const CaseReport report = judge({&kAlone, &kBadVariant});
  EXPECT_EQ(report.overall, VerdictKind::kDeadlocked);
  EXPECT_EQ(report.first_failure()->property, &kBadVariant);
  EXPECT_NE(report.first_failure()->verdict.message.find("schedule="), std::string::npos);
}

TEST_F(JudgeTest, RefusesWithTheSubjectsReasonAndRunsNothing) {
  Case value = fake::small_case();
  value.placement.mesh.axes[0].size = 7;
  Judge fresh(tables_);
  const CaseReport report = fresh.judge(value, {});
  EXPECT_EQ(report.overall, VerdictKind::kRefused);
  EXPECT_EQ(report.refusal, "seven ranks");
  EXPECT_EQ(report.base, nullptr);
  EXPECT_TRUE(report.judgements.empty());
}

TEST_F(JudgeTest, RefusesAnOperatorThatTheSubjectDoesNotCompute) {
  subject_.op = "mlp";
  EXPECT_EQ(judge({}).refusal, "fake computes mlp, not attention");
}

TEST_F(JudgeTest, UnknownSubjectsAndWorldsAreErrors) {
  Judge fresh(tables_);
  Case value = fake::small_case();
  value.placement.world = "mars";
  EXPECT_THROW(fresh.judge(value, {}), Error);
  value = fake::small_case();
  value.placement.subject = "nobody";
  EXPECT_THROW(fresh.judge(value, {}), Error);
  tables_.worlds[0].unavailable = [](const std::vector<DeviceEntry>&) {
    return std::string("no MPI");
  };
  EXPECT_THROW(fresh.judge(fake::small_case(), {}), Error);
}

TEST_F(JudgeTest, EvaluatesTheReferenceAgainOnlyForMoreEffort) {
  EXPECT_EQ(judge({&kReference}).judgements[0].verdict.symptom, "");
}

TEST_F(JudgeTest, ACaseWithoutPowerIsVacuousThoughOthersHold) {
  EXPECT_EQ(judge({&kAlone, &kReference}).overall, VerdictKind::kVacuous);
}

TEST(Overall, TheGravestJudgementDecides) {
  const auto of = [](std::vector<VerdictKind> kinds) {
    std::vector<Judgement> judgements;
    for (VerdictKind kind : kinds) {
      judgements.push_back({&kAlone, {}});
      judgements.back().verdict.kind = kind;
    }
    return overall(judgements);
  };
  using enum VerdictKind;
  EXPECT_EQ(of({}), kDiscarded);
  EXPECT_EQ(of({kDiscarded, kDiscarded}), kDiscarded);
  EXPECT_EQ(of({kDiscarded, kVacuous}), kVacuous);
  EXPECT_EQ(of({kVacuous, kHolds, kDiscarded}), kHolds);
  EXPECT_EQ(of({kHolds, kFalsified, kVacuous}), kFalsified);
  EXPECT_EQ(of({kFalsified, kTimedOut}), kTimedOut);
  EXPECT_EQ(of({kTimedOut, kDeadlocked}), kDeadlocked);
  EXPECT_EQ(of({kDeadlocked, kCrashed, kFalsified}), kCrashed);
}

}  // namespace
}  // namespace shardproof
