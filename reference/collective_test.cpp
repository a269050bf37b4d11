#include "reference/collective.h"

#include <gtest/gtest.h>

#include "reference/bound_check.h"

namespace shardproof {
namespace {

Problem problem_for(Collective collective, DataRecipe data = DataRecipe::kNormal,
                    DType dtype = DType::kF32) {
  Problem p;
  p.op = &collective_operator();
  p.collective = collective;
  p.parts = 5;
  p.count = 7;
  p.root = collective == Collective::kBroadcast ? 3 : 0;
  p.dtype = dtype;
  p.data = data;
  p.seed = 99;
  return p;
}

std::vector<double> input(const Problem& problem, std::size_t which) {
  return whole_tensor(problem, problem.op->tensors(problem)[which]);
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

constexpr Collective kCollectives[] = {Collective::kAllReduce,     Collective::kAllGather,
                                       Collective::kReduceScatter, Collective::kAllToAll,
                                       Collective::kBroadcast,     Collective::kRingShift};

// y and dx from the definitions, index by index.
TEST(Collective, ValuesFollowTheDefinitions) {
  for (Collective collective : kCollectives) {
    const Problem p = problem_for(collective);
    const std::vector<double> x = input(p, 0);
    const Expected expected = p.op->evaluate(p, {}, Effort::kValues);
    const std::vector<double>& y = expected.find("y")->want;
    const auto at = [&](Index i, Index j, Index k) {
      return x[static_cast<std::size_t>((i * p.parts + j) * p.count + k)];
    };
    const auto row = [&](Index r, Index k) { return x[static_cast<std::size_t>(r * p.count + k)]; };
    for (std::size_t flat = 0; flat < y.size(); ++flat) {
      const Index k = static_cast<Index>(flat) % p.count;
      const Index d = static_cast<Index>(flat) / p.count % p.parts;
      const Index outer = static_cast<Index>(flat) / (p.count * p.parts);
      double want = 0;
      switch (collective) {
        case Collective::kAllReduce:
          for (Index r = 0; r < p.parts; ++r) want += row(r, k);
          break;
        case Collective::kReduceScatter:
          for (Index r = 0; r < p.parts; ++r) want += at(r, d, k);
          break;
        case Collective::kAllGather:
          want = row(d, k);
          break;
        case Collective::kAllToAll:
          want = at(d, outer, k);
          break;
        case Collective::kBroadcast:
          want = row(p.root, k);
          break;
        case Collective::kRingShift:
          want = row((d - 1 + p.parts) % p.parts, k);
          break;
      }
      EXPECT_NEAR(y[flat], want, 1e-14) << static_cast<int>(collective) << " " << flat;
    }
  }
}

// <y, dy> = <x, dx> for a linear map and its adjoint.
TEST(Collective, TheGradientIsTheAdjoint) {
  for (Collective collective : kCollectives) {
    const Problem p = problem_for(collective);
    const Expected expected = p.op->evaluate(p, {}, Effort::kValues);
    EXPECT_NEAR(dot(expected.find("y")->want, input(p, 1)),
                dot(expected.find("dx")->want, input(p, 0)), 1e-12)
        << static_cast<int>(collective);
  }
}

TEST(Collective, MovingDataHasNoTolerance) {
  for (Collective collective : {Collective::kAllGather, Collective::kAllToAll,
                                Collective::kBroadcast, Collective::kRingShift}) {
    for (DType dtype : all_dtypes()) {
      const Problem p = problem_for(collective, DataRecipe::kNormal, dtype);
      Contract contract;
      contract.precision.io = dtype;
      for (const ExpectedTensor& tensor : p.op->evaluate(p, contract, Effort::kAll).tensors) {
        for (double bound : tensor.worst) EXPECT_EQ(bound, 0);
        for (double bound : tensor.likely) EXPECT_EQ(bound, 0);
      }
    }
  }
}

TEST(Collective, SumsOfIntegersHaveNoTolerance) {
  for (DType dtype : all_dtypes()) {
    const Problem p = problem_for(Collective::kAllReduce, DataRecipe::kInteger, dtype);
    Contract contract;
    contract.precision.io = dtype;
    contract.precision.reduction = dtype;
    const Expected expected = p.op->evaluate(p, contract, Effort::kAll);
    for (double bound : expected.find("y")->worst) EXPECT_EQ(bound, 0);
  }
  const Problem p = problem_for(Collective::kAllReduce);
  const Expected expected = p.op->evaluate(p, {}, Effort::kAll);
  EXPECT_GT(expected.find("y")->likely[0], 0);
  EXPECT_LT(expected.find("y")->likely[0], 1e-5);
}

// Magnitudes that add up to more than 256 may need more than the eight bits of bf16.
TEST(Collective, SumsThatDoNotFitTheReductionHaveATolerance) {
  Problem p = problem_for(Collective::kAllReduce, DataRecipe::kInteger, DType::kBf16);
  p.parts = 600;
  Contract contract;
  contract.precision.io = DType::kBf16;
  contract.precision.reduction = DType::kBf16;
  const Expected narrow = p.op->evaluate(p, contract, Effort::kAll);
  EXPECT_GT(*std::max_element(narrow.find("y")->likely.begin(), narrow.find("y")->likely.end()), 0);
}

TEST(Collective, HonestSumsNeverExceedTheBoundAndALostPartDoes) {
  Dice dice(3);
  int caught = 0;
  int faulty = 0;
  for (int i = 0; i < cases_to_run(3000); ++i) {
    Problem p = problem_for(dice.chance(50) ? Collective::kAllReduce : Collective::kReduceScatter,
                            static_cast<DataRecipe>(dice.below(10)),
                            all_dtypes()[static_cast<std::size_t>(1 + dice.below(4))]);
    p.parts = 1 + dice.below(12);
    p.count = dice.below(12);
    p.seed = dice.bits();
    const Contract contract = contract_for(p.dtype, dice);
    const DType reduction = contract.precision.reduction;
    const std::vector<double> x = input(p, 0);
    const Expected expected = p.op->evaluate(p, contract, Effort::kAll);
    const ExpectedTensor& y = *expected.find("y");
    const auto order = dice.permutation(p.parts);
    double right = 0;
    double wrong = 0;
    for (std::size_t at = 0; at < y.want.size(); ++at) {
      double sum = 0;
      double missing = 0;
      for (std::size_t r = 0; r < order.size(); ++r) {
        const double term =
            round_to(reduction, x[static_cast<std::size_t>(order[r]) * y.want.size() + at]);
        sum = round_to(reduction, sum + term);
        if (r > 0) missing = round_to(reduction, missing + term);
      }
      right =
          std::max(right, ratio_of(std::fabs(round_to(p.dtype, sum) - y.want[at]), y.likely[at]));
      wrong = std::max(wrong,
                       ratio_of(std::fabs(round_to(p.dtype, missing) - y.want[at]), y.likely[at]));
    }
    ASSERT_LE(right, 1) << i;
    if (p.parts < 2 || p.count < 2) continue;
    ++faulty;
    caught += wrong > 1;
  }
  EXPECT_GT(caught, faulty * 98 / 100);
}

TEST(Collective, RepairIsTotalAndIdempotent) {
  Dice dice(5);
  for (int i = 0; i < 2000; ++i) {
    Problem p = problem_for(static_cast<Collective>(dice.below(6)));
    p.parts = dice.below(9) - 3;
    p.count = dice.below(9) - 3;
    p.root = dice.below(19) - 6;
    p.op->repair(p);
    EXPECT_EQ(p.op->broken_rule(p), "");
    Problem again = p;
    again.op->repair(again);
    EXPECT_EQ(again, p);
  }
}

TEST(Collective, ABrokenRuleNamesTheValueAndTheChoices) {
  Problem p = problem_for(Collective::kBroadcast);
  p.root = 5;
  EXPECT_EQ(p.op->broken_rule(p),
            "root is 5; allowed: 0 to 4 (below parts for broadcast, 0 otherwise)");
}

TEST(Collective, NothingToMoveIsFine) {
  for (Collective collective : kCollectives) {
    Problem p = problem_for(collective);
    p.count = 0;
    const Expected expected = p.op->evaluate(p, {}, Effort::kAll);
    EXPECT_EQ(expected.tensors.size(), 2u);
    EXPECT_TRUE(expected.find("y")->want.empty());
  }
}

}  // namespace
}  // namespace shardproof
