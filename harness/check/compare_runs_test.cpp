// Comparisons of two runs, verdicts on comparisons, and the power of bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/check/compare.h"

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

TEST(CompareRuns, MayDifferByBothBoundsTogether) {
  ExpectedTensor first = expected();
  ExpectedTensor second = expected();
  first.want[3] = 0;
  Gathered a = right_answer(first);
  Gathered b = a;
  b.got[3] = 2e-6;
  EXPECT_EQ(compare(a, b, &first, &second).symptom, "");
  EXPECT_EQ(compare(a, b, &first, nullptr).symptom, "over the 6-sigma bound");
  b.got[3] = std::nextafter(2e-6, 1);
  EXPECT_EQ(compare(a, b, &first, &second).symptom, "over the 6-sigma bound");
  b.got[3] = kNan;
  EXPECT_EQ(compare(b, b, &first, &second).symptom, "not a number") << "NaN never agrees";
  a.spec.shape = {kColumns, kRows};
  EXPECT_EQ(compare(a, b, &first, &second).symptom, "wrong shape");
}

TEST(CompareBits, RejectsTheSmallestDifference) {
  const ExpectedTensor want = expected();
  const Gathered base = right_answer(want);
  Gathered got = base;
  EXPECT_EQ(compare_bits(got, base).symptom, "");
  got.got[34] = std::nextafter(got.got[34], 2);
  EXPECT_EQ(compare_bits(got, base).symptom, "bits differ");
  EXPECT_EQ(compare_bits(got, base).element, 34);
  got.got[34] = kNan;
  EXPECT_EQ(compare_bits(got, base).symptom, "bits differ");
  EXPECT_EQ(compare_bits(base, got).symptom, "bits differ");
  EXPECT_EQ(compare_bits(got, got).symptom, "") << "two runs may have the same NaN";
}

TEST(CompareBits, ZerosOfEitherSignAreTheSame) {
  const TensorSpec spec = spec_of({2});
  EXPECT_EQ(compare_bits({spec, {0.0, -0.0}}, {spec, {-0.0, 0.0}}).symptom, "");
}

TEST(CompareBits, LooksOnlyAtTheChosenElements) {
  const ExpectedTensor want = expected();
  const Gathered base = right_answer(want);
  Gathered got = base;
  got.got[2] = 7;
  got.got[20] = 7;
  std::vector<std::uint8_t> keep(base.got.size(), 1);
  keep[2] = 0;
  EXPECT_EQ(compare_bits(got, base, keep).element, 20);
  EXPECT_EQ(compare_bits(got, base, keep).rejected, 1);
  keep[20] = 0;
  EXPECT_EQ(compare_bits(got, base, keep).symptom, "");
}

TEST(Verdicts, NameTheElementByItsCoordinates) {
  const ExpectedTensor want = expected();
  Gathered got = right_answer(want);
  got.got[10] += 1;  // row 1, column 3
  const Verdict verdict = verdict_of(compare(got, want), want.spec.shape);
  EXPECT_EQ(verdict.kind, VerdictKind::kFalsified);
  EXPECT_EQ(verdict.tensor, "out");
  EXPECT_EQ(verdict.element, 10);
  EXPECT_EQ(verdict.symptom, "over the worst-case bound");
  EXPECT_NE(verdict.message.find("out[1, 3]"), std::string::npos) << verdict.message;
  EXPECT_EQ(verdict_of(compare(right_answer(want), want), want.spec.shape).kind,
            VerdictKind::kHolds);
}

TEST(Sharpness, ABoundAsWideAsTheValuesHasNone) {
  ExpectedTensor want = expected();
  EXPECT_EQ(sharpness(want, 4), Sharpness::kSharp);
  std::fill(want.likely.begin(), want.likely.end(), 1.1);
  EXPECT_EQ(sharpness(want, 1), Sharpness::kBlunt) << "no two elements differ by more than 2";
  std::fill(want.likely.begin(), want.likely.end(), kInfinity);
  EXPECT_EQ(sharpness(want, 4), Sharpness::kBlunt);
}

// Equal elements: swapping halves moves nothing, leaving out one share of four moves each by 1/4.
TEST(Sharpness, IsJudgedByTheShareOfOneRank) {
  ExpectedTensor want = expected();
  std::fill(want.want.begin(), want.want.end(), 1.0);
  std::fill(want.likely.begin(), want.likely.end(), 0.12);
  EXPECT_EQ(sharpness(want, 4), Sharpness::kSharp);
  EXPECT_EQ(sharpness(want, 5), Sharpness::kBlunt);
  EXPECT_EQ(sharpness(want, 1), Sharpness::kSharp) << "a single rank may leave out half";
  want.likely[9] = 0.01;
  EXPECT_EQ(sharpness(want, 5), Sharpness::kSharp) << "one element is enough to see it";
}

TEST(Sharpness, SwappedHalvesShowWhatShareIsTooSmall) {
  ExpectedTensor want = expected({2, 4});
  std::fill(want.want.begin(), want.want.begin() + 4, 1.0);
  std::fill(want.want.begin() + 4, want.want.end(), -1.0);
  std::fill(want.likely.begin(), want.likely.end(), 0.9);
  EXPECT_EQ(sharpness(want, 64), Sharpness::kSharp);
  std::fill(want.want.begin() + 4, want.want.end(), 1.0);
  EXPECT_EQ(sharpness(want, 64), Sharpness::kBlunt);
}

TEST(Sharpness, TermsThatCancelCountByTheirSquares) {
  ExpectedTensor want = expected();
  std::fill(want.want.begin(), want.want.end(), 0.0);
  std::fill(want.likely.begin(), want.likely.end(), 0.2);
  EXPECT_EQ(sharpness(want, 4), Sharpness::kIdle) << "nothing that could be left out";
  want.terms = 1;
  EXPECT_EQ(sharpness(want, 4), Sharpness::kSharp);
  EXPECT_EQ(sharpness(want, 8), Sharpness::kBlunt);
}

TEST(Sharpness, ExactElementsHaveItAndNothingHasNone) {
  ExpectedTensor want = expected();
  std::fill(want.want.begin(), want.want.end(), 0.0);
  EXPECT_EQ(sharpness(want, 2), Sharpness::kIdle);
  want.likely[3] = 0;
  EXPECT_EQ(sharpness(want, 2), Sharpness::kSharp);
  want.want[3] = -kInfinity;
  EXPECT_EQ(sharpness(want, 2), Sharpness::kSharp) << "the lse of a row without keys";
  EXPECT_EQ(sharpness(expected({0, 3}), 2), Sharpness::kIdle);
}

}  // namespace
}  // namespace shardproof
