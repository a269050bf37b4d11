#include "harness/check/judge.h"

#include <gtest/gtest.h>

#include "harness/check/fake.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

// Schedules that end badly.
constexpr std::uint64_t kDeadlocks = 1;
constexpr std::uint64_t kThrows = 2;

// Numbers its runs in Outcome::message.
class FakeWorld : public World {
 public:
  Outcome run(const Case& value, const Subject&, const RunOptions&) override {
    Outcome outcome = fake::right_outcome(value);
    outcome.message = std::to_string(++runs_);
    if (value.placement.schedule == kDeadlocks) outcome.ending = Ending::kDeadlocked;
    if (value.placement.schedule == kThrows) outcome.ending = Ending::kThrew;
    return outcome;
  }

 private:
  int runs_ = 0;
};

Case with_schedule(Case value, std::uint64_t schedule) {
  value.placement.schedule = schedule;
  return value;
}

// Two properties look at the same further run.
std::vector<Case> another_schedule(const Case& value, const Subject&) {
  return {with_schedule(value, 101)};
}

Verdict name_runs(const Evidence& evidence) {
  Verdict verdict;
  verdict.message = evidence.base.outcome.message;
  for (const Run* run : evidence.variants) verdict.message += " " + run->outcome.message;
  return verdict;
}

const Property kAlone{.name = "alone", .claim = "", .judge = name_runs};
const Property kFirst{
    .name = "first", .claim = "", .variants = another_schedule, .judge = name_runs};
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

class JudgeTest : public testing::Test {
 protected:
  JudgeTest() {
    tables_.operators = {&fake::op()};
    tables_.subjects = {&subject_};
    tables_.properties = {&kAlone, &kFirst};
    tables_.worlds = {{.name = "fake",
                       .summary = "",
                       .unavailable = [] { return std::string(); },
                       .make = [](std::vector<DeviceEntry>) -> std::unique_ptr<World> {
                         return std::make_unique<FakeWorld>();
                       }}};
  }

  CaseReport judge(std::vector<const Property*> properties, std::uint64_t schedule = 100) {
    Judge fresh(tables_);
    return fresh.judge(with_schedule(fake::small_case(), schedule), properties);
  }

  Subject subject_ = fake::subject();
  Tables tables_;
};

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

// A world of processes that counts its runs and has a limit of ranks.
class LimitedWorld : public FakeWorld {
 public:
  explicit LimitedWorld(int& runs) : runs_(runs) {}
  std::string unsupported(int ranks) const override {
    return most_ > 0 && ranks > most_ ? "too many ranks" : "";
  }
  void limit_ranks(int ranks) override { most_ = ranks; }
  Outcome run(const Case& value, const Subject& subject, const RunOptions& options) override {
    ++runs_;
    return FakeWorld::run(value, subject, options);
  }

 private:
  int& runs_;
  int most_ = 0;
};

int runs_of_processes = 0;

class RehearsalTest : public JudgeTest {
 protected:
  RehearsalTest() {
    runs_of_processes = 0;
    tables_.worlds[0].name = "sim";
    tables_.worlds.push_back(tables_.worlds[0]);
    tables_.worlds[1].name = "mpi";
    tables_.worlds[1].make = [](std::vector<DeviceEntry>) -> std::unique_ptr<World> {
      return std::make_unique<LimitedWorld>(runs_of_processes);
    };
  }

  CaseReport judge_in_mpi(std::uint64_t schedule = 100) {
    Judge fresh(tables_);
    Case value = with_schedule(fake::small_case(), schedule);
    value.placement.world = "mpi";
    const std::vector<const Property*> properties{&kAlone, &kFirst};
    return fresh.judge(value, properties);
  }
};

TEST_F(RehearsalTest, ACaseThatHeldGoesOnToProcesses) {
  const CaseReport report = judge_in_mpi();
  EXPECT_EQ(report.value.placement.world, "mpi");
  EXPECT_EQ(report.overall, VerdictKind::kHolds);
  EXPECT_EQ(runs_of_processes, 2);
}

TEST_F(RehearsalTest, ACaseThatFailsInTheSimulatedWorldGoesNoFurther) {
  const CaseReport report = judge_in_mpi(kDeadlocks);
  EXPECT_EQ(report.value.placement.world, "sim");
  EXPECT_EQ(report.overall, VerdictKind::kDeadlocked);
  EXPECT_EQ(runs_of_processes, 0);
}

TEST_F(RehearsalTest, ACaseWithTooManyRanksIsRefused) {
  tables_.most_ranks = fake::small_case().placement.mesh.ranks() - 1;
  const CaseReport report = judge_in_mpi();
  EXPECT_EQ(report.overall, VerdictKind::kRefused);
  EXPECT_EQ(report.refusal, "too many ranks");
  EXPECT_EQ(runs_of_processes, 0);
}

TEST_F(JudgeTest, UnknownSubjectsAndWorldsAreErrors) {
  Judge fresh(tables_);
  Case value = fake::small_case();
  value.placement.world = "mars";
  EXPECT_THROW(fresh.judge(value, {}), Error);
  value = fake::small_case();
  value.placement.subject = "nobody";
  EXPECT_THROW(fresh.judge(value, {}), Error);
  tables_.worlds[0].unavailable = [] { return std::string("no MPI"); };
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
