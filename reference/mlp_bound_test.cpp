// The bounds of the mlp: an emulation that keeps the contract never exceeds them, a faulty one
// does.
#include <gtest/gtest.h>

#include "harness/model/case.h"
#include "reference/bound_check.h"
#include "reference/mlp_emulation.h"
#include "reference/projection.h"

namespace shardproof {
namespace {

NamedTensors emulate(const Problem& problem, const Contract& contract, Summation summation,
                     MlpFault fault) {
  if (problem.dtype == DType::kF64) {
    return MlpEmulation<double>(problem, contract, summation, fault, problem.seed).run();
  }
  return MlpEmulation<float>(problem, contract, summation, fault, problem.seed).run();
}

Worst judge(const Problem& problem, const Contract& contract, Summation summation, MlpFault fault) {
  return compare(emulate(problem, contract, summation, fault),
                 problem.op->evaluate(problem, contract, Effort::kAll));
}

Problem random_problem(Dice& dice) {
  Problem p;
  p.op = &mlp_operator();
  const auto extent = [&] {
    const Index limit = dice.chance(20) ? 4 : dice.chance(90) ? 24 : 100;
    return dice.below(limit);
  };
  p.tokens = extent();
  p.features = extent();
  p.hidden = extent();
  p.outputs = extent();
  p.activation = static_cast<Activation>(dice.below(4));
  p.gated = dice.chance(40);
  p.dtype = all_dtypes()[static_cast<std::size_t>(dice.below(5))];
  p.data = static_cast<DataRecipe>(dice.below(10));
  p.seed = dice.bits();
  return p;
}

TEST(MlpBound, HonestContractsNeverExceedIt) {
  const auto cut = [](Contract& contract, const Problem& problem, Dice& dice) {
    contract.partitions.summed = dice.partition(problem.hidden, 1 + dice.below(8));
  };
  const auto honest = [](const Problem& problem, const Contract& contract, Summation summation) {
    return judge(problem, contract, summation, MlpFault::kNone);
  };
  expect_honest_contracts_hold(7, 2000, random_problem, cut, honest);
}

Problem fixed_problem(DType dtype, Activation activation = Activation::kGelu) {
  Problem p;
  p.op = &mlp_operator();
  p.tokens = 48;
  p.features = 40;
  p.hidden = 72;
  p.outputs = 36;
  p.activation = activation;
  p.dtype = dtype;
  p.seed = 1;
  return p;
}

// In how many of ten problems the fault exceeds T2.
int caught(Problem p, Summation summation, MlpFault fault) {
  int count = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    p.seed = seed;
    count += judge(p, plain_mlp_contract(p, 4), summation, fault).t2 > 1;
  }
  return count;
}

TEST(MlpBound, StructuralFaultsExceedIt) {
  for (DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    Problem p = fixed_problem(dtype);
    for (MlpFault fault :
         {MlpFault::kBiasPerPart, MlpFault::kMissingPart, MlpFault::kNoReduceOfDx}) {
      EXPECT_EQ(caught(p, Summation::kPermuted, fault), 10) << static_cast<int>(fault);
    }
    p.gated = true;
    EXPECT_EQ(caught(p, Summation::kPermuted, MlpFault::kSwappedGate), 10);
    EXPECT_EQ(caught(p, Summation::kPermuted, MlpFault::kNone), 0);
  }
}

TEST(MlpBound, TheOtherGeluExceedsItInF32) {
  for (Activation activation : {Activation::kGelu, Activation::kGeluTanh}) {
    const Problem p = fixed_problem(DType::kF32, activation);
    EXPECT_EQ(caught(p, Summation::kPermuted, MlpFault::kOtherGelu), 10);
  }
}

TEST(MlpBound, ABf16AccumulatorExceedsIt) {
  for (DType dtype : {DType::kF32, DType::kBf16}) {
    EXPECT_EQ(caught(fixed_problem(dtype), Summation::kLow, MlpFault::kNone), 10);
  }
}

// Small integers through relu: every sum is exact in any order, so nothing is tolerated.
TEST(MlpBound, IntegersHaveNoTolerance) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kTf32}) {
    for (bool gated : {false, true}) {
      Problem p = fixed_problem(dtype, Activation::kRelu);
      p.features = 5;
      p.hidden = 9;
      p.outputs = 3;
      p.tokens = 6;
      p.data = DataRecipe::kInteger;
      p.gated = gated;
      Dice dice(4);
      Contract contract = contract_for(dtype, dice);
      contract.precision.middle = contract.precision.reduction = accumulator_of(dtype);
      contract.partitions.summed = dice.partition(p.hidden, 3);
      for (const ExpectedTensor& tensor : p.op->evaluate(p, contract, Effort::kAll).tensors) {
        for (std::size_t i = 0; i < tensor.want.size(); ++i) {
          if (!representable(dtype, tensor.want[i])) continue;
          EXPECT_EQ(tensor.worst[i], 0) << tensor.spec.name << " " << format(dtype).name;
          EXPECT_EQ(tensor.likely[i], 0);
        }
      }
      EXPECT_EQ(judge(p, contract, Summation::kPermuted, MlpFault::kNone).t1, 0);
    }
  }
}

// How much of a typical element T2 is: what no fault smaller than that can be seen against.
TEST(MlpBound, LeavesPowerToSeeFaults) {
  const std::pair<DType, double> limits[] = {{DType::kF32, 3e-5}, {DType::kBf16, 0.05}};
  for (const auto& [dtype, limit] : limits) {
    for (bool gated : {false, true}) {
      Problem p = fixed_problem(dtype, Activation::kSilu);
      p.gated = gated;
      const Expected expected = p.op->evaluate(p, plain_mlp_contract(p, 4), Effort::kAll);
      for (const ExpectedTensor& tensor : expected.tensors) {
        EXPECT_LT(vagueness(tensor), limit) << tensor.spec.name << " " << format(dtype).name;
      }
    }
  }
}

// Whether a sum of large values overflows is a matter of order: anything goes there, and only
// there.
TEST(MlpBound, WhatMayOverflowIsNotJudged) {
  Precision precision;
  precision.io = precision.middle = precision.reduction = DType::kF16;
  const ProductRule rule(precision, true);
  const auto bound = [&](double value, const Partition& parts) {
    const auto left = exact_factor<double>({value, -value, 1}, 1, 3, rule);
    const auto right = exact_factor<double>({1, 1, 1}, 3, 1, rule);
    const auto product = multiply(left, right, rule, parts);
    return reduced_bound(product, 0, 1, false, product.values[0], rule).worst;
  };
  const Partition cut{{0}, {1, 2}};
  EXPECT_LT(bound(30000, cut), kUnbounded);
  EXPECT_EQ(bound(40000, cut), kUnbounded);  // the parts add up to more than 65504 in magnitude
  EXPECT_LT(bound(40000, {}), kUnbounded);   // the accumulator is f32
  EXPECT_EQ(bound(2e38, {}), kUnbounded);
  Carried error;
  add_middle_rounding(error, rule, 65000.0);
  EXPECT_LT(error.worst, kUnbounded);
  add_middle_rounding(error, rule, 65520.0);
  EXPECT_EQ(error.worst, kUnbounded);
}

}  // namespace
}  // namespace shardproof
