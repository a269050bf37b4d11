// The bounds of norm_mlp: an emulation that keeps the contract never exceeds them, a faulty one
// does.
#include <gtest/gtest.h>

#include "harness/model/case.h"
#include "reference/bound_check.h"
#include "reference/norm_mlp_emulation.h"

namespace shardproof {
namespace {

NamedTensors emulate(const Problem& problem, const Contract& contract, Summation summation,
                     NormFault fault) {
  if (problem.dtype == DType::kF64) {
    return NormMlpEmulation<double>(problem, contract, summation, fault, problem.seed).run();
  }
  return NormMlpEmulation<float>(problem, contract, summation, fault, problem.seed).run();
}

Worst judge(const Problem& problem, const Contract& contract, Summation summation,
            NormFault fault) {
  return compare(emulate(problem, contract, summation, fault),
                 problem.op->evaluate(problem, contract, Effort::kAll));
}

Problem random_problem(Dice& dice) {
  constexpr double kEpsilons[] = {1e-5, 1e-6, 1e-2, 1e-12};
  Problem p;
  p.op = &norm_mlp_operator();
  const auto extent = [&] {
    const Index limit = dice.chance(30) ? 4 : dice.chance(95) ? 14 : 50;
    return dice.below(limit);
  };
  p.tokens = extent();
  p.features = extent();
  p.hidden = extent();
  p.outputs = extent();
  p.norm = static_cast<Norm>(dice.below(2));
  p.epsilon = kEpsilons[dice.below(4)];
  p.dtype = all_dtypes()[static_cast<std::size_t>(dice.below(5))];
  p.data = static_cast<DataRecipe>(dice.below(10));
  p.seed = dice.bits();
  return p;
}

TEST(NormMlpBound, HonestContractsNeverExceedIt) {
  const auto cut = [](Contract& contract, const Problem& problem, Dice& dice) {
    contract.partitions.summed = dice.partition(problem.hidden, 1 + dice.below(8));
    contract.partitions.queries = dice.partition(problem.tokens, 1 + dice.below(8));
  };
  const auto honest = [](const Problem& problem, const Contract& contract, Summation summation) {
    return judge(problem, contract, summation, NormFault::kNone);
  };
  expect_honest_contracts_hold(7, 20000, random_problem, cut, honest);
}

// Of one feature dx is what is left of dz after two cancellations.
TEST(NormMlpBound, HonestContractsNeverExceedItWithOneFeature) {
  const auto narrow = [](Dice& dice) {
    Problem p = random_problem(dice);
    p.tokens = 200;
    p.features = 1;
    p.hidden = 2 + dice.below(3);
    p.norm = dice.chance(80) ? Norm::kRms : Norm::kLayer;
    p.epsilon = dice.chance(80) ? 1e-6 : 1e-2;
    p.data = dice.chance(50) ? DataRecipe::kPeaked : p.data;
    return p;
  };
  const auto whole = [](Contract&, const Problem&, Dice&) {};
  const auto honest = [](const Problem& problem, const Contract& contract, Summation summation) {
    return judge(problem, contract, summation, NormFault::kNone);
  };
  expect_honest_contracts_hold(8, 4000, narrow, whole, honest);
}

// A case of the kind in which roundings of dz's error, not of dz, decide.
TEST(NormMlpBound, CoversRoundingsOfAnErrorThatIsLargerThanItsValue) {
  Problem p;
  p.op = &norm_mlp_operator();
  p.tokens = 11;
  p.features = 1;
  p.hidden = 4;
  p.outputs = 12;
  p.norm = Norm::kRms;
  p.epsilon = 1e-6;
  p.dtype = DType::kBf16;
  p.data = DataRecipe::kPeaked;
  p.seed = 0x6878296170276b72;
  Contract contract;
  contract.precision.io = contract.precision.middle = contract.precision.reduction = p.dtype;
  for (int order = 0; order < 6; ++order) {
    const auto summation = static_cast<Summation>(order);
    contract.precision.truncating = summation == Summation::kTruncating;
    const Worst at = judge(p, contract, summation, NormFault::kNone);
    EXPECT_LE(at.t1, 1) << at.where << " in order " << order;
    EXPECT_LE(at.t2, 1) << at.where << " in order " << order;
  }
}

Problem fixed_problem(DType dtype, Norm norm = Norm::kLayer) {
  Problem p;
  p.op = &norm_mlp_operator();
  p.tokens = 24;
  p.features = 20;
  p.hidden = 32;
  p.outputs = 18;
  p.norm = norm;
  p.dtype = dtype;
  p.seed = 1;
  return p;
}

// In how many of ten problems the fault exceeds T2.
int caught(Problem p, NormFault fault) {
  int count = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    p.seed = seed;
    count += judge(p, plain_mlp_contract(p, 4), Summation::kPermuted, fault).t2 > 1;
  }
  return count;
}

TEST(NormMlpBound, StructuralFaultsExceedIt) {
  for (DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (NormFault fault : {NormFault::kNoMeanTerm, NormFault::kMissingPart, NormFault::kOwnTokens,
                            NormFault::kSampleVariance}) {
      EXPECT_EQ(caught(fixed_problem(dtype), fault), 10)
          << static_cast<int>(fault) << format(dtype).name;
    }
    EXPECT_EQ(caught(fixed_problem(dtype), NormFault::kNone), 0);
  }
}

// With plain data epsilon is 1e-5 of the variance: below what 16 bits resolve.
TEST(NormMlpBound, AMissingEpsilonExceedsItWhereEpsilonMatters) {
  for (Norm norm : {Norm::kRms, Norm::kLayer}) {
    EXPECT_EQ(caught(fixed_problem(DType::kF32, norm), NormFault::kNoEpsilon), 10);
    for (DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      Problem p = fixed_problem(dtype, norm);
      p.data = DataRecipe::kTiny;
      // With seeds 1, 5 and 9 the upstream gradients are tiny and the tokens are not.
      const int seen = dtype == DType::kF32 ? 10 : 7;
      EXPECT_EQ(caught(p, NormFault::kNoEpsilon), seen) << format(dtype).name;
    }
  }
}

// It cancels where the mean is far larger than the standard deviation.
TEST(NormMlpBound, AVarianceInOnePassExceedsItUnderALargeOffset) {
  Problem p = fixed_problem(DType::kF32);
  p.data = DataRecipe::kCancellation;
  EXPECT_EQ(caught(p, NormFault::kOnePass), 10);
  EXPECT_EQ(caught(p, NormFault::kNone), 0);
}

TEST(NormMlpBound, MomentsAddedInBf16ExceedIt) {
  EXPECT_EQ(caught(fixed_problem(DType::kF32), NormFault::kLowSum), 10);
}

// How much of a typical element T2 is: what no fault smaller than that can be seen against.
TEST(NormMlpBound, LeavesPowerToSeeFaults) {
  const std::pair<DType, double> limits[] = {{DType::kF32, 2e-5}, {DType::kBf16, 0.08}};
  for (const auto& [dtype, limit] : limits) {
    for (Norm norm : {Norm::kRms, Norm::kLayer}) {
      const Problem p = fixed_problem(dtype, norm);
      const Expected expected = p.op->evaluate(p, plain_mlp_contract(p, 4), Effort::kAll);
      for (const ExpectedTensor& tensor : expected.tensors) {
        EXPECT_LT(vagueness(tensor), limit) << tensor.spec.name << " " << format(dtype).name;
      }
    }
  }
}

// Without hidden units, outputs or tokens every result is 0, whatever the order of the sums.
TEST(NormMlpBound, WhatIsZeroHasNoTolerance) {
  for (Index Problem::*extent : {&Problem::hidden, &Problem::outputs, &Problem::tokens}) {
    for (DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      Problem p = fixed_problem(dtype);
      p.*extent = 0;
      for (const ExpectedTensor& tensor :
           p.op->evaluate(p, plain_mlp_contract(p, 4), Effort::kAll).tensors) {
        for (double worst : tensor.worst) EXPECT_EQ(worst, 0) << tensor.spec.name;
      }
    }
  }
}

// A constant row has the variance 0 and z = beta, give or take the rounding of its mean, times the
// root of 1 / epsilon.
TEST(NormMlpBound, ConstantRowsKeepAFiniteBound) {
  for (Norm norm : {Norm::kRms, Norm::kLayer}) {
    Problem p = fixed_problem(DType::kF32, norm);
    p.data = DataRecipe::kConstantRows;
    for (const ExpectedTensor& tensor :
         p.op->evaluate(p, plain_mlp_contract(p, 4), Effort::kAll).tensors) {
      for (double likely : tensor.likely) EXPECT_LT(likely, kUnbounded);
      if (tensor.spec.name == "y") {
        EXPECT_LT(vagueness(tensor), 0.01);
      }
    }
  }
}

}  // namespace
}  // namespace shardproof
