#include "harness/check/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace shardproof {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Index kRows = 5;
constexpr Index kColumns = 7;

TensorSpec spec_of(Shape shape, DType dtype = DType::kF32) {
  return {.name = "out", .kind = TensorKind::kOutput, .dtype = dtype, .shape = shape};
}

// Every element distinct and of magnitude about 1; T2 a thousandth of T1.
ExpectedTensor expected(Shape shape = {kRows, kColumns}) {
  ExpectedTensor result;
  result.spec = spec_of(shape);
  for (Index i = 0; i < shape.elements(); ++i) {
    result.want.push_back(std::cos(0.7 * static_cast<double>(i) + 0.1));
    result.worst.push_back(1e-3);
    result.likely.push_back(1e-6);
    result.sigma.push_back(1e-7);
  }
  return result;
}

Gathered right_answer(const ExpectedTensor& want) { return {want.spec, want.want}; }

std::string symptom_of(const Gathered& got, const ExpectedTensor& want) {
  return std::string(compare(got, want).symptom);
}

TEST(Compare, AcceptsTheRightAnswer) {
  const ExpectedTensor want = expected();
  const Comparison result = compare(right_answer(want), want);
  EXPECT_EQ(result.symptom, "");
  EXPECT_EQ(result.rejected, 0);
  EXPECT_EQ(result.elements, kRows * kColumns);
  EXPECT_EQ(result.likely_ratio, 0);
  EXPECT_EQ(result.worst_ratio, 0);
}

TEST(Compare, RejectsNanAtEveryPosition) {
  const ExpectedTensor want = expected();
  for (std::size_t i = 0; i < want.want.size(); ++i) {
    Gathered got = right_answer(want);
    got.got[i] = kNan;
    const Comparison result = compare(got, want);
    EXPECT_EQ(result.symptom, "not a number");
    EXPECT_EQ(result.element, static_cast<Index>(i));
    EXPECT_EQ(result.rejected, 1);
  }
}

TEST(Compare, RejectsNanInEveryElement) {
  const ExpectedTensor want = expected();
  EXPECT_EQ(symptom_of({want.spec, std::vector<double>(want.want.size(), kNan)}, want),
            "not a number");
}

TEST(Compare, RejectsNanEvenWhereTheReferenceHasOne) {
  ExpectedTensor want = expected();
  want.want[3] = kNan;
  EXPECT_EQ(symptom_of(right_answer(want), want), "not a number");
}

TEST(Compare, RejectsEitherInfinity) {
  const ExpectedTensor want = expected();
  for (double infinity : {kInfinity, -kInfinity}) {
    Gathered got = right_answer(want);
    got.got[9] = infinity;
    got.got[30] += 1;  // a finite error elsewhere does not hide it
    const Comparison result = compare(got, want);
    EXPECT_EQ(result.symptom, "infinite");
    EXPECT_EQ(result.element, 9);
  }
}

TEST(Compare, ReportsNanBeforeInfinity) {
  const ExpectedTensor want = expected();
  Gathered got = right_answer(want);
  got.got[2] = kInfinity;
  got.got[20] = kNan;
  EXPECT_EQ(symptom_of(got, want), "not a number");
}

TEST(Compare, RejectsTransposedValues) {
  const ExpectedTensor want = expected({6, 6});
  Gathered got = right_answer(want);
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t j = 0; j < 6; ++j) got.got[6 * i + j] = want.want[6 * j + i];
  }
  EXPECT_EQ(symptom_of(got, want), "over the worst-case bound");
}

TEST(Compare, RejectsTransposedShape) {
  const ExpectedTensor want = expected();
  Gathered got = right_answer(want);
  got.spec.shape = {kColumns, kRows};
  EXPECT_EQ(symptom_of(got, want), "wrong shape");
}

TEST(Compare, RejectsTooFewValues) {
  const ExpectedTensor want = expected();
  Gathered got = right_answer(want);
  got.got.pop_back();
  EXPECT_EQ(symptom_of(got, want), "wrong shape");
}

TEST(Compare, RejectsWrongDtypeEvenWithRightValues) {
  const ExpectedTensor want = expected();
  Gathered got = right_answer(want);
  got.spec.dtype = DType::kBf16;
  EXPECT_EQ(symptom_of(got, want), "wrong dtype");
}

TEST(Compare, RejectsSwappedRows) {
  const ExpectedTensor want = expected();
  Gathered got = right_answer(want);
  std::swap_ranges(got.got.begin(), got.got.begin() + kColumns, got.got.begin() + 2 * kColumns);
  EXPECT_EQ(symptom_of(got, want), "over the worst-case bound");
}

TEST(Compare, RejectsRowsShiftedByOneAsAStaleBufferLeavesThem) {
  const ExpectedTensor want = expected();
  Gathered got = right_answer(want);
  std::copy(want.want.begin(), want.want.end() - kColumns, got.got.begin() + kColumns);
  EXPECT_EQ(symptom_of(got, want), "over the worst-case bound");
}

TEST(Compare, RejectsAllZeros) {
  const ExpectedTensor want = expected();
  const Gathered got{want.spec, std::vector<double>(want.want.size(), 0.0)};
  EXPECT_EQ(symptom_of(got, want), "over the worst-case bound");
  EXPECT_EQ(compare(got, want).rejected, kRows * kColumns);
}

TEST(Compare, RejectsScalingByFourTolerances) {
  const ExpectedTensor want = expected();
  Gathered got = right_answer(want);
  for (double& value : got.got) value *= 1 + 4e-6;
  EXPECT_EQ(symptom_of(got, want), "over the 6-sigma bound");
  for (double& value : got.got) value *= 1 + 4e-3;
  EXPECT_EQ(symptom_of(got, want), "over the worst-case bound");
}

// Elements at 0 make got - want exact, so that one ulp of the bound is visible.
TEST(Compare, AcceptsTheBoundItselfAndRejectsOneUlpMore) {
  ExpectedTensor want = expected();
  want.want[11] = 0;
  for (double sign : {1.0, -1.0}) {
    Gathered got = right_answer(want);
    got.got[11] = sign * 1e-6;
    EXPECT_EQ(symptom_of(got, want), "");
    EXPECT_EQ(compare(got, want).likely_ratio, 1);
    got.got[11] = sign * std::nextafter(1e-6, 0);
    EXPECT_EQ(symptom_of(got, want), "");
    got.got[11] = sign * std::nextafter(1e-6, 1);
    EXPECT_EQ(symptom_of(got, want), "over the 6-sigma bound");
    got.got[11] = sign * 1e-3;
    EXPECT_EQ(symptom_of(got, want), "over the 6-sigma bound");
    got.got[11] = sign * std::nextafter(1e-3, 1);
    EXPECT_EQ(symptom_of(got, want), "over the worst-case bound");
  }
}

TEST(Compare, NamesTheWorstElementWithItsBound) {
  const ExpectedTensor want = expected();
  Gathered got = right_answer(want);
  got.got[4] += 2e-6;
  got.got[33] += 5e-6;
  const Comparison result = compare(got, want);
  EXPECT_EQ(result.element, 33);
  EXPECT_EQ(result.rejected, 2);
  EXPECT_EQ(result.bound, 1e-6);
  EXPECT_NEAR(result.likely_ratio, 5, 1e-6);
  EXPECT_NEAR(result.worst_ratio, 5e-3, 1e-9);
  EXPECT_EQ(result.got, got.got[33]);
  EXPECT_EQ(result.want, want.want[33]);
}

TEST(Compare, AZeroBoundWantsTheExactValue) {
  ExpectedTensor want = expected();
  want.want[6] = want.worst[6] = want.likely[6] = 0;
  Gathered got = right_answer(want);
  got.got[6] = -0.0;
  EXPECT_EQ(symptom_of(got, want), "") << "-0 equals +0";
  got.got[6] = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(symptom_of(got, want), "over the worst-case bound");
}

TEST(Compare, AnEmptyRowWantsMinusInfinityExactly) {
  ExpectedTensor want = expected();
  want.want[5] = -kInfinity;
  want.worst[5] = want.likely[5] = 0;
  EXPECT_EQ(symptom_of(right_answer(want), want), "");
  for (double wrong : {0.0, -1e300, -std::numeric_limits<double>::max()}) {
    Gathered got = right_answer(want);
    got.got[5] = wrong;
    EXPECT_EQ(symptom_of(got, want), "over the worst-case bound") << wrong;
  }
  Gathered got = right_answer(want);
  got.got[5] = kInfinity;
  EXPECT_EQ(symptom_of(got, want), "infinite");
  got.got[5] = kNan;
  EXPECT_EQ(symptom_of(got, want), "not a number");
}

TEST(Compare, AnInfiniteBoundAcceptsAnythingAndOnlyThere) {
  ExpectedTensor want = expected();
  want.worst[8] = want.likely[8] = kInfinity;
  for (double any : {kNan, kInfinity, -kInfinity, 1e300, 0.0}) {
    Gathered got = right_answer(want);
    got.got[8] = any;
    EXPECT_EQ(symptom_of(got, want), "") << any;
    got.got[7] = any;
    EXPECT_NE(symptom_of(got, want), "") << any;
  }
}

TEST(Compare, WithoutTheWorstCaseTheLikelyBoundDecides) {
  ExpectedTensor want = expected();
  std::fill(want.worst.begin(), want.worst.end(), kInfinity);
  Gathered got = right_answer(want);
  got.got[0] += 1;
  EXPECT_EQ(symptom_of(got, want), "over the 6-sigma bound");
  EXPECT_EQ(compare(got, want).worst_ratio, 0);
  got.got[0] = kNan;
  EXPECT_EQ(symptom_of(got, want), "not a number");
}

TEST(Compare, NoiseBelowEveryBoundFailsTheRmsTestWhereItApplies) {
  ExpectedTensor want = expected({64, 32});
  Gathered got = right_answer(want);
  for (std::size_t i = 0; i < got.got.size(); ++i) got.got[i] += (i % 2 ? 1.2e-7 : -1.2e-7);
  EXPECT_EQ(symptom_of(got, want), "") << "preconditions not met";
  EXPECT_NEAR(compare(got, want).rms, 1.2, 1e-6);
  want.rms_applies = true;
  EXPECT_EQ(symptom_of(got, want), "too noisy (RMS)");
  for (std::size_t i = 0; i < got.got.size(); ++i) {
    got.got[i] = want.want[i] + (i % 2 ? 1.1e-7 : -1.1e-7);
  }
  EXPECT_EQ(symptom_of(got, want), "");
}

TEST(Compare, ErrorsThatRowsShareAreFewSoThatTheirMeanSaysLess) {
  ExpectedTensor want = expected({64, 32});
  want.rms_applies = true;
  Gathered got = right_answer(want);
  for (std::size_t i = 0; i < got.got.size(); ++i) {
    got.got[i] += i / 32 % 4 == 0 ? 2.4e-7 : 1e-8;  // 16 rows of 64 hold nearly all of it
  }
  const Comparison shared = compare(got, want);
  EXPECT_NEAR(shared.rms, 1.2, 0.01);
  EXPECT_EQ(shared.symptom, "");
  EXPECT_GT(shared.allowed_rms, 1.5);
  for (std::size_t i = 0; i < got.got.size(); ++i) got.got[i] += i % 2 ? 2e-7 : -2e-7;
  EXPECT_EQ(symptom_of(got, want), "too noisy (RMS)");
}

TEST(Compare, EmptyTensorsAgreeButNotWithAnotherShape) {
  const ExpectedTensor want = expected({0, 4});
  EXPECT_EQ(symptom_of(right_answer(want), want), "");
  Gathered got = right_answer(want);
  got.spec.shape = {4, 0};
  EXPECT_EQ(symptom_of(got, want), "wrong shape");
}

}  // namespace
}  // namespace shardproof
