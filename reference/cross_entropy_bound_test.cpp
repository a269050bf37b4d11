// The bounds of the loss: an emulation that keeps the contract never exceeds them, a faulty one
// does.
#include <gtest/gtest.h>

#include "harness/model/case.h"
#include "reference/bound_check.h"
#include "reference/cross_entropy_emulation.h"

namespace shardproof {
namespace {

NamedTensors emulate(const Problem& problem, const Contract& contract, LossFault fault) {
  if (problem.dtype == DType::kF64) {
    return CrossEntropyEmulation<double>(problem, contract, fault, problem.seed).run();
  }
  return CrossEntropyEmulation<float>(problem, contract, fault, problem.seed).run();
}

Worst judge(const Problem& problem, const Contract& contract, LossFault fault) {
  return compare(emulate(problem, contract, fault),
                 problem.op->evaluate(problem, contract, Effort::kAll));
}

Problem random_problem(Dice& dice) {
  constexpr double kShares[] = {0, 0, 0.1, 0.5, 0.9, 1};
  Problem p;
  p.op = &cross_entropy_operator();
  p.batch = dice.below(3);
  p.tokens = dice.below(dice.chance(90) ? 6 : 40);
  p.vocab = 1 + dice.below(dice.chance(20) ? 4 : dice.chance(95) ? 24 : 300);
  p.padding = dice.chance(50) ? 0 : dice.below(6);
  p.smoothing = kShares[dice.below(6)];
  p.ignored = kShares[dice.below(6)];
  p.dtype = all_dtypes()[static_cast<std::size_t>(dice.below(5))];
  p.data = static_cast<DataRecipe>(dice.below(10));
  p.seed = dice.bits();
  return p;
}

TEST(CrossEntropyBound, HonestContractsNeverExceedIt) {
  Dice dice(7);
  Worst worst;
  for (int i = 0; i < cases_to_run(25000); ++i) {
    const Problem problem = random_problem(dice);
    Contract contract = contract_for(problem.dtype, dice);
    contract.precision.rescales = static_cast<int>(dice.below(5));
    contract.partitions.summed = dice.partition(problem.vocab, 1 + dice.below(8));
    contract.partitions.queries = dice.partition(problem.tokens, 1 + dice.below(5));
    const Worst at = judge(problem, contract, LossFault::kNone);
    const std::string what = to_text(problem) + describe(contract, Summation::kPermuted) +
                             " rescales=" + std::to_string(contract.precision.rescales) + " at " +
                             at.where;
    ASSERT_LE(at.t1, 1) << what;
    ASSERT_LE(at.t2, 1) << what;
    worst.t1 = std::max(worst.t1, at.t1);
    worst.t2 = std::max(worst.t2, at.t2);
  }
  std::printf("largest error: %.3f of T1, %.3f of T2\n", worst.t1, worst.t2);
}

Problem fixed_problem(DType dtype) {
  Problem p;
  p.op = &cross_entropy_operator();
  p.batch = 2;
  p.tokens = 9;
  p.vocab = 50;
  p.padding = 3;
  p.smoothing = 0.1;
  p.ignored = 0.2;
  p.dtype = dtype;
  p.seed = 1;
  return p;
}

Contract plain_contract(const Problem& p, Index parts) {
  Contract contract;
  contract.precision.io = p.dtype;
  contract.precision.rescales = 0;
  Dice dice(2);
  contract.partitions.summed = dice.partition(p.vocab, parts);
  contract.partitions.queries = dice.partition(p.tokens, 3);
  return contract;
}

TEST(CrossEntropyBound, StructuralFaultsExceedItByFar) {
  for (DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (LossFault fault : {LossFault::kMaximumOfPart, LossFault::kPaddingCounted,
                            LossFault::kSmoothingOfPart, LossFault::kMeanOfMeans}) {
      Problem p = fixed_problem(dtype);
      for (p.seed = 0; p.seed < 10; ++p.seed) {
        EXPECT_GT(judge(p, plain_contract(p, 4), fault).t2, 100)
            << format(dtype).name << " " << static_cast<int>(fault);
      }
    }
  }
}

TEST(CrossEntropyBound, ABf16SumExceedsIt) {
  for (DType dtype : {DType::kF32, DType::kBf16}) {
    Problem p = fixed_problem(dtype);
    for (p.seed = 0; p.seed < 10; ++p.seed) {
      EXPECT_GT(judge(p, plain_contract(p, 4), LossFault::kLowSum).t2, 1);
      EXPECT_LE(judge(p, plain_contract(p, 4), LossFault::kNone).t2, 1);
    }
  }
}

// How much of a typical element T2 is: what no fault smaller than that can be seen against.
TEST(CrossEntropyBound, LeavesPowerToSeeFaults) {
  const std::pair<DType, double> limits[] = {{DType::kF32, 1e-5}, {DType::kBf16, 0.01}};
  for (const auto& [dtype, limit] : limits) {
    const Problem p = fixed_problem(dtype);
    const Expected expected = p.op->evaluate(p, plain_contract(p, 4), Effort::kAll);
    for (const ExpectedTensor& tensor : expected.tensors) {
      const bool is_statistic = tensor.spec.name != "dlogits";
      EXPECT_LT(vagueness(tensor), is_statistic ? 1e-5 : limit) << tensor.spec.name;
    }
  }
}

// One word: nothing to be wrong about. Padding and tokens without a label: exactly 0.
TEST(CrossEntropyBound, WhatIsExactHasNoTolerance) {
  Problem p = fixed_problem(DType::kF32);
  Expected expected = p.op->evaluate(p, plain_contract(p, 4), Effort::kAll);
  const ExpectedTensor& gradient = *expected.find("dlogits");
  for (std::size_t i = 0; i < gradient.want.size(); ++i) {
    const bool pads = static_cast<Index>(i) % columns_of(p) >= p.vocab;
    if (pads) {
      EXPECT_EQ(gradient.want[i], 0);
    }
    if (gradient.want[i] == 0) {
      EXPECT_EQ(gradient.worst[i], 0);
    }
  }
  p.vocab = 1;
  p.smoothing = 0;
  p.data = DataRecipe::kHuge;
  expected = p.op->evaluate(p, plain_contract(p, 4), Effort::kAll);
  for (const ExpectedTensor& tensor : expected.tensors) {
    for (double worst : tensor.worst) EXPECT_EQ(worst, 0) << tensor.spec.name;
  }
}

}  // namespace
}  // namespace shardproof
