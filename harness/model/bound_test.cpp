#include "harness/model/bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "harness/model/element.h"

namespace shardproof {
namespace {

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ull;

Precision all_of(DType type) {
  Precision precision;
  for (DType* field :
       {&precision.io, &precision.accumulator, &precision.elementwise, &precision.score,
        &precision.probability, &precision.score_gradient, &precision.saved_out, &precision.lse,
        &precision.block_out, &precision.query_gradient, &precision.kv_gradient, &precision.operand,
        &precision.middle, &precision.reduction}) {
    *field = type;
  }
  return precision;
}

// In [-1, 1).
double uniform(std::uint64_t seed, std::uint64_t i) {
  return static_cast<double>(static_cast<std::int64_t>(mix(seed * kStep + i))) * 0x1p-63;
}

struct Sums {
  double sum = 0;
  double squares = 0;
  double absolute = 0;
};

Sums sums_of(const std::vector<float>& a, const std::vector<float>& b) {
  Sums result;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double product = static_cast<double>(a[i]) * static_cast<double>(b[i]);
    result.sum += product;
    result.squares += product * product;
    result.absolute += std::fabs(product);
  }
  return result;
}

// T1 and T2 of a float dot product before any final rounding.
std::array<double, 2> bounds_of(const Sums& sums, std::size_t terms, bool truncating = false) {
  Precision precision;
  precision.truncating = truncating;
  const Units units(precision);
  Bound bound;
  bound.add(accumulation(units.accumulator, static_cast<double>(terms), sums.sum, sums.squares,
                         sums.absolute));
  return {bound.worst_case(units.inflation), bound.likely_case(units.inflation)};
}

float sequential(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

using Maker = std::function<double(std::uint64_t seed, std::uint64_t i)>;

// The largest error / T1 and error / T2 over many sums of `terms` products.
std::array<double, 2> largest_ratios(const Maker& left, const Maker& right, std::size_t terms,
                                     bool sorted = false) {
  std::array<double, 2> largest{};
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    std::vector<float> a(terms), b(terms);
    for (std::size_t i = 0; i < terms; ++i) {
      a[i] = static_cast<float>(left(seed, i));
      b[i] = static_cast<float>(right(seed + 1000, i));
    }
    if (sorted) std::sort(a.begin(), a.end());
    const Sums sums = sums_of(a, b);
    const auto [worst, likely] = bounds_of(sums, terms);
    const double error = std::fabs(static_cast<double>(sequential(a, b)) - sums.sum);
    largest[0] = std::max(largest[0], error / worst);
    largest[1] = std::max(largest[1], error / likely);
  }
  return largest;
}

TEST(Bound, CoversSumsOfEveryLengthAndSign) {
  const Maker one = [](std::uint64_t, std::uint64_t) { return 1.0; };
  const Maker positive = [](std::uint64_t s, std::uint64_t i) { return 1 + uniform(s, i); };
  const Maker alternating = [](std::uint64_t s, std::uint64_t i) {
    return (i % 2 ? -1 : 1) * (2 + uniform(s, i));
  };
  const Maker wide = [](std::uint64_t s, std::uint64_t i) {
    return std::exp2(20 * uniform(s, i)) * uniform(s + 7, i);
  };
  for (std::size_t terms : {1, 2, 3, 17, 300}) {
    for (const Maker& left : {Maker(uniform), positive, alternating, wide}) {
      for (const Maker& right : {Maker(uniform), one, wide}) {
        const auto [worst, likely] = largest_ratios(left, right, terms);
        EXPECT_LE(worst, 1) << terms;
        EXPECT_LE(likely, 1) << terms;
      }
    }
  }
}

// A sum in the worst of orders, all positive terms first, is what only the worst case promises.
TEST(Bound, WorstCaseCoversSortedSums) {
  const Maker one = [](std::uint64_t, std::uint64_t) { return 1.0; };
  EXPECT_LE(largest_ratios(uniform, one, 400, true)[0], 1);
}

TEST(Bound, IsTightForOneProductAndUsefulForMany) {
  const auto [worst, likely] = largest_ratios(uniform, uniform, 1);
  EXPECT_GT(worst, 0.9);
  EXPECT_GT(likely, 0.9);
  EXPECT_GT(largest_ratios(uniform, uniform, 300)[1], 0.05);
}

TEST(Bound, RejectsASumInANarrowerAccumulator) {
  int detected = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::vector<float> a(200), b(200);
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = static_cast<float>(uniform(seed, i));
      b[i] = static_cast<float>(uniform(seed + 99, i));
    }
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      sum = round_to(DType::kBf16, sum + static_cast<double>(a[i]) * static_cast<double>(b[i]));
    }
    const Sums sums = sums_of(a, b);
    detected += std::fabs(sum - sums.sum) > bounds_of(sums, a.size())[1] ? 1 : 0;
  }
  EXPECT_EQ(detected, 50);
}

TEST(Bound, CoversProductsThatUnderflow) {
  const Maker tiny = [](std::uint64_t s, std::uint64_t i) { return 0x1p-75 * uniform(s, i); };
  const auto [worst, likely] = largest_ratios(tiny, tiny, 40);
  EXPECT_LE(worst, 1);
  EXPECT_LE(likely, 1);
  EXPECT_GT(worst, 0.01);
}

TEST(Bound, TruncatingAccumulatorsLoseToOneSideWithEveryTerm) {
  float sum = 0;
  for (int i = 0; i < 1000; ++i) {
    const double next = static_cast<double>(sum) + 1.0 / 3;
    sum = static_cast<float>(next);
    if (static_cast<double>(sum) > next) sum = std::nextafter(sum, 0.0f);
  }
  const Sums sums{1000.0 / 3, 1000.0 / 9, 1000.0 / 3};
  const double error = sums.sum - static_cast<double>(sum);
  EXPECT_GT(error, bounds_of(sums, 1000)[1]);
  EXPECT_LT(error, bounds_of(sums, 1000, true)[1]);
  EXPECT_NEAR(bounds_of(sums, 1000, true)[0] / bounds_of(sums, 1000)[0], 2, 1e-6);
}

TEST(Bound, FewTermsCountLinearlyAndManyQuadratically) {
  Bound few;
  few.add(Family{4, 4, 1});  // four terms of 1
  EXPECT_EQ(few.linear, 4);
  EXPECT_EQ(few.square, 0);
  Bound many;
  many.add(Family{100, 100, 1});
  EXPECT_EQ(many.linear, 1);
  EXPECT_EQ(many.square, 100);
  EXPECT_EQ(many.likely_case(1), 1 + 60);
  EXPECT_EQ(many.as_family().square, 100);
  // A hundred equal rows round alike: nothing is gained by the many.
  Bound coherent;
  coherent.add(Family{100, 100, 1}, 100);
  EXPECT_EQ(coherent.likely_case(1), 100);
  // Without a worst case the quadratic form remains.
  Bound unknown;
  unknown.add(Family{kUnbounded, 100, 1});
  EXPECT_EQ(unknown.likely_case(1), 61);
}

TEST(Bound, SquaresThatVanishLeaveTheWorstCase) {
  Bound bound;
  bound.add(Family{1e-170, 0, 0});  // its square is no double
  EXPECT_GE(bound.likely_case(1), 1e-170);
}

TEST(Bound, TheFinalRoundingCountsOnceAndLinearly) {
  Precision precision = all_of(DType::kF32);
  precision.io = DType::kBf16;
  Bound bound;
  bound.add(0.001);
  const OutputType bf16(DType::kBf16, precision);
  const Thresholds thresholds = finish(bound, 1.5, bf16);
  EXPECT_NEAR(thresholds.worst, 0.001 * bf16.inflation + 0x1p-8, 1e-12);
  EXPECT_EQ(finish(bound, 1.5, OutputType(DType::kF32, precision)).worst,
            bound.worst_case(bf16.inflation));
  // Subnormal outputs round by a fixed amount.
  EXPECT_EQ(finish(Bound{}, 0, bf16).worst, format(DType::kBf16).eta());
  // The rounding may be reached: a tie is not over the bound.
  EXPECT_LE(std::fabs(round_to(DType::kBf16, 1 + 0x1p-8) - (1 + 0x1p-8)),
            finish(Bound{}, 1 + 0x1p-8, bf16).worst);
}

TEST(Bound, AcceptsAnythingWhereTheOutputMayOverflow) {
  Precision precision = all_of(DType::kF32);
  precision.io = DType::kF16;
  Bound bound;
  bound.add(100);
  const OutputType f16(DType::kF16, precision);
  EXPECT_EQ(finish(bound, 65450, f16).worst, kUnbounded);
  EXPECT_EQ(finish(bound, -65450, f16).likely, kUnbounded);
  EXPECT_LT(finish(bound, 60000, f16).worst, 200);
  bound.add(std::nan(""));
  EXPECT_EQ(finish(bound, 1, f16).likely, kUnbounded);
}

TEST(Bound, F64OutputsGrantTheReferenceItsOwnRounding) {
  const OutputType f64(DType::kF64, all_of(DType::kF64));
  EXPECT_EQ(finish(Bound{}, 1, f64).worst, 0x1p-53);
  EXPECT_GT(finish(Bound{}, 0, f64).worst, 0);
}

TEST(Bound, NarrowingFollowsTheSignificand) {
  EXPECT_TRUE(narrowing(DType::kF32, DType::kBf16).exists());
  EXPECT_TRUE(narrowing(DType::kF32, DType::kTf32).exists());
  EXPECT_FALSE(narrowing(DType::kF32, DType::kF32).exists());
  EXPECT_FALSE(narrowing(DType::kBf16, DType::kF16).exists());
  EXPECT_EQ(rounding_to(DType::kTf32).eta, 0x1p-137);
  EXPECT_EQ(rounding_to(DType::kF16).underflow(1e-6), 0x1p-25);
  EXPECT_EQ(rounding_to(DType::kF16).underflow(1e-9), 1e-9);
}

TEST(Bound, UnitsKnowWhichRoundingsHappen) {
  Precision precision;
  const Units plain(precision);
  EXPECT_FALSE(plain.operand.exists() || plain.probability.exists() || plain.middle.exists());
  precision.operand = DType::kTf32;
  EXPECT_TRUE(Units(precision).operand.exists());
  EXPECT_TRUE(Units(precision).probability_operand.exists());
  precision.io = DType::kTf32;  // inputs are tf32 already; P is not
  EXPECT_FALSE(Units(precision).operand.exists());
  EXPECT_TRUE(Units(precision).probability_operand.exists());
  precision.probability = DType::kTf32;
  EXPECT_FALSE(Units(precision).probability_operand.exists());
  EXPECT_EQ(plain.exp_error, 6 * 0x1p-24);
}

TEST(Bound, GrowthIsAnUpperBoundOfTheExponential) {
  for (double x = 1e-12; x < 50; x *= 1.3) {
    EXPECT_GE(relative_growth(x), std::expm1(x));
    EXPECT_LE(relative_growth(x), std::expm1(x) * (1 + 5e-4));
  }
  EXPECT_LT(relative_growth(1e9), kUnbounded);
}

// Values drawn as parts, then added one after another in bf16.
TEST(Bound, CoversSumsOverRanksInANarrowType) {
  const Rounding bf16 = rounding_to(DType::kBf16);
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    const std::size_t parts = 2 + seed % 7;
    Sums sums;
    double reduced = 0;
    double carried = 0;
    for (std::size_t i = 0; i < parts; ++i) {
      const double part = uniform(seed, i);
      sums.sum += part;
      sums.squares += part * part;
      sums.absolute += std::fabs(part);
      const double rounded = round_to(DType::kBf16, part);
      reduced = i == 0 ? rounded : round_to(DType::kBf16, reduced + rounded);
      carried = round_to(DType::kBf16, carried + part);
    }
    const double count = static_cast<double>(parts);
    Bound reduction;
    add_all_reduce(reduction, bf16, true, count, sums.absolute, sums.squares, sums.sum);
    Bound running;
    add_running_sum(running, bf16, count, sums.absolute, sums.squares, sums.sum);
    EXPECT_LE(std::fabs(reduced - sums.sum), reduction.likely_case(1 + 8 * bf16.u));
    EXPECT_LE(std::fabs(carried - sums.sum), running.likely_case(1 + 8 * bf16.u));
  }
  Bound single;
  add_all_reduce(single, bf16, true, 1, 1, 1, 1);
  EXPECT_EQ(single.worst, 0);
}

TEST(Bound, MultiplicityCountsEqualRowsButNotZeroOnes) {
  const std::vector<double> matrix{1, 2, 0, 0, 1, 2, 0, 0, 0, 0, 3, 2};  // 6 x 2 or 2 x 6
  EXPECT_EQ(row_multiplicity(matrix.data(), 6, 2), 2);
  EXPECT_EQ(column_multiplicity(matrix.data(), 6, 2), 1);
  const std::vector<double> columns{1, 1, 1, 2, -0.0, 0, 0, 5};
  EXPECT_EQ(column_multiplicity(columns.data(), 2, 4), 3);
  EXPECT_EQ(row_multiplicity(nullptr, 0, 4), 1);
}

}  // namespace
}  // namespace shardproof
