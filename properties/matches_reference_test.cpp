#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/check/fake.h"
#include "properties/properties.h"

namespace shardproof {

const Property& matches_reference_property();

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// An operator whose bounds are wider than its values, and one that counts as large.
Expected evaluate_widely(const Problem& problem, const Contract& contract, Effort effort) {
  Expected result = fake::evaluate(problem, contract, effort);
  for (ExpectedTensor& tensor : result.tensors) {
    tensor.worst.assign(tensor.want.size(), 1e3);
    tensor.likely.assign(tensor.want.size(), 1e2);
  }
  return result;
}

class MatchesReference : public testing::Test {
 protected:
  Verdict judge() { return matches_reference_property().judge({run_, {}}); }

  std::vector<double>& values(std::size_t tensor) { return run_.outcome.tensors[tensor].got; }

  Subject subject_ = fake::subject();
  shardproof::Run run_ = fake::right_run(fake::small_case(), subject_);
};

TEST_F(MatchesReference, HoldsForTheRightAnswer) { EXPECT_EQ(judge().kind, VerdictKind::kHolds); }

TEST_F(MatchesReference, IsFalsifiedByOneWrongElementOfAnyTensor) {
  for (std::size_t tensor = 0; tensor < run_.outcome.tensors.size(); ++tensor) {
    run_.outcome = fake::right_outcome(run_.value);
    values(tensor).back() += 1e-4;
    Verdict verdict = judge();
    EXPECT_EQ(verdict.kind, VerdictKind::kFalsified);
    EXPECT_EQ(verdict.tensor, run_.outcome.tensors[tensor].spec.name);
    EXPECT_EQ(verdict.symptom, "over the 6-sigma bound");
    values(tensor).back() += 1;
    EXPECT_EQ(judge().symptom, "over the worst-case bound");
    values(tensor).back() = kNan;
    EXPECT_EQ(judge().symptom, "not a number");
  }
}

TEST_F(MatchesReference, IsFalsifiedByAMissingTensor) {
  run_.outcome.tensors.erase(run_.outcome.tensors.begin() + 1);
  EXPECT_EQ(judge().kind, VerdictKind::kFalsified);
  EXPECT_EQ(judge().tensor, "lse");
}

TEST_F(MatchesReference, TellsUnwrittenElementsFromComputedNan) {
  values(2)[5] = kNan;
  EXPECT_EQ(judge().symptom, "not a number");
  run_.outcome.findings.push_back({Breach::kUnwritten, 0, "dq", 5, ""});
  EXPECT_EQ(judge().symptom, "unwritten");
}

TEST_F(MatchesReference, AsksForTheWorstCaseOfALargeProblemOnlyOnFailure) {
  Operator large = fake::op();
  large.work = [](const Problem&) { return 1e12; };
  run_.value.problem.op = &large;
  Effort most = Effort::kValues;
  run_.expected = [&, inner = run_.expected](Effort effort) -> const Expected& {
    most = std::max(most, effort);
    return inner(effort);
  };
  EXPECT_EQ(judge().kind, VerdictKind::kHolds);
  EXPECT_EQ(most, Effort::kLikely);
  values(0)[0] += 1;
  EXPECT_EQ(judge().symptom, "over the worst-case bound");
  EXPECT_EQ(most, Effort::kAll);
}

TEST_F(MatchesReference, IsVacuousWhenNoBoundCouldShowAFault) {
  run_.expected = [expected = Expected(), this](Effort effort) mutable -> const Expected& {
    expected = evaluate_widely(run_.value.problem, {}, effort);
    return expected;
  };
  EXPECT_EQ(judge().kind, VerdictKind::kVacuous);
  values(0)[0] = kNan;
  EXPECT_EQ(judge().kind, VerdictKind::kFalsified) << "a failure is never vacuous";
}

TEST_F(MatchesReference, OneTensorWithPowerIsEnough) {
  run_.expected = [expected = Expected(), this](Effort effort) mutable -> const Expected& {
    expected = evaluate_widely(run_.value.problem, {}, effort);
    expected.tensors[3] = fake::evaluate(run_.value.problem, {}, effort).tensors[3];
    return expected;
  };
  EXPECT_EQ(judge().kind, VerdictKind::kHolds);
}

TEST_F(MatchesReference, IsVacuousWhenEveryOutputIsEmpty) {
  Case empty = fake::small_case();
  empty.problem.batch = 0;
  run_ = fake::right_run(empty, subject_);
  EXPECT_EQ(judge().kind, VerdictKind::kVacuous);
}

}  // namespace
}  // namespace shardproof
