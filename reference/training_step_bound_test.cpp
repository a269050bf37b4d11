// The bounds of the training step: an emulation that keeps the contract never exceeds them, a
// faulty one does.
#include <gtest/gtest.h>

#include "harness/model/case.h"
#include "reference/bound_check.h"
#include "reference/training_step_emulation.h"

namespace shardproof {
namespace {

NamedTensors emulate(const Problem& problem, const Contract& contract, Summation summation,
                     StepFault fault) {
  if (problem.dtype == DType::kF64) {
    return StepEmulation<double>(problem, contract, summation, fault, problem.seed).run();
  }
  return StepEmulation<float>(problem, contract, summation, fault, problem.seed).run();
}

Worst judge(const Problem& problem, const Contract& contract,
            Summation summation = Summation::kPermuted, StepFault fault = StepFault::kNone) {
  return compare(emulate(problem, contract, summation, fault),
                 problem.op->evaluate(problem, contract, Effort::kAll));
}

double norm_of(const Problem& problem) {
  return problem.op->evaluate(problem, {}, Effort::kValues).find("norm")->want[0];
}

Problem random_problem(Dice& dice) {
  Problem p;
  p.op = &training_step_operator();
  const auto extent = [&] { return dice.below(dice.chance(20) ? 4 : dice.chance(95) ? 20 : 60); };
  p.tokens = extent();
  p.features = extent();
  p.hidden = extent();
  p.outputs = extent();
  p.activation = static_cast<Activation>(dice.below(4));
  p.tied = dice.chance(40);
  p.micro_batches = 1 + dice.below(4);
  p.dtype = all_dtypes()[static_cast<std::size_t>(dice.below(5))];
  p.data = static_cast<DataRecipe>(dice.below(10));
  p.seed = dice.bits();
  const double norms[] = {0, 0.01, 1, 50};
  p.max_norm = norms[dice.below(4)];
  p.op->repair(p);
  // Where rounding decides whether anything is clipped.
  const double ulps = static_cast<double>(dice.below(9) - 4);
  if (dice.chance(15)) p.max_norm = norm_of(p) * (1 + 1e-7 * ulps);
  p.op->repair(p);
  return p;
}

TEST(TrainingStepBound, HonestContractsNeverExceedIt) {
  const auto cut = [](Contract& contract, const Problem& problem, Dice& dice) {
    contract.partitions.summed = dice.partition(problem.hidden, 1 + dice.below(8));
    contract.partitions.queries = dice.partition(problem.tokens, 1 + dice.below(8));
  };
  const auto honest = [](const Problem& problem, const Contract& contract, Summation summation) {
    return judge(problem, contract, summation);
  };
  expect_honest_contracts_hold(7, 2000, random_problem, cut, honest);
}

Problem fixed_problem(DType dtype) {
  Problem p;
  p.op = &training_step_operator();
  p.tokens = 30;
  p.features = 12;
  p.hidden = 24;
  p.outputs = 12;
  p.activation = Activation::kSilu;
  p.micro_batches = 3;
  p.dtype = dtype;
  p.seed = 1;
  return p;
}

// In how many of ten problems the fault exceeds T2.
int caught(Problem p, StepFault fault) {
  int count = 0;
  for (p.seed = 0; p.seed < 10; ++p.seed) {
    count += judge(p, plain_mlp_contract(p, 3), Summation::kPermuted, fault).t2 > 1;
  }
  return count;
}

TEST(TrainingStepBound, StructuralFaultsExceedIt) {
  for (DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (double max_norm : {0.0, 1.0}) {
      Problem p = fixed_problem(dtype);
      p.max_norm = max_norm;
      for (StepFault fault : {StepFault::kOverwrite, StepFault::kMissingRank,
                              StepFault::kReplicasCounted, StepFault::kOwnShard}) {
        EXPECT_EQ(caught(p, fault), 10) << static_cast<int>(fault);
      }
      EXPECT_EQ(caught(p, StepFault::kNoClipping), max_norm > 0 ? 10 : 0);
      EXPECT_EQ(caught(p, StepFault::kSecondUseLost), 0);
      EXPECT_EQ(caught(p, StepFault::kNone), 0);
      p.tied = true;
      EXPECT_EQ(caught(p, StepFault::kSecondUseLost), 10);
      EXPECT_EQ(caught(p, StepFault::kNone), 0);
    }
  }
}

TEST(TrainingStepBound, SquaresAddedInBf16ExceedIt) {
  EXPECT_EQ(caught(fixed_problem(DType::kF32), StepFault::kLowNorm), 10);
}

// How much of a typical element T2 is: what no fault smaller than that can be seen against.
TEST(TrainingStepBound, LeavesPowerToSeeFaults) {
  const std::pair<DType, double> limits[] = {{DType::kF32, 3e-5}, {DType::kBf16, 0.05}};
  for (const auto& [dtype, limit] : limits) {
    for (bool tied : {false, true}) {
      for (double max_norm : {0.0, 1.0}) {
        Problem p = fixed_problem(dtype);
        p.tied = tied;
        p.max_norm = max_norm;
        const Expected expected = p.op->evaluate(p, plain_mlp_contract(p, 4), Effort::kAll);
        for (const ExpectedTensor& tensor : expected.tensors) {
          EXPECT_LT(vagueness(tensor), limit) << tensor.spec.name << " " << format(dtype).name;
        }
      }
    }
  }
}

// Small integers through relu: every gradient is exact in any order, so nothing is tolerated.
TEST(TrainingStepBound, IntegerGradientsHaveNoTolerance) {
  for (bool tied : {false, true}) {
    Problem p = fixed_problem(DType::kF32);
    p.activation = Activation::kRelu;
    p.data = DataRecipe::kInteger;
    p.tied = tied;
    p.max_norm = 1e9;  // clips nothing
    const Expected expected = p.op->evaluate(p, plain_mlp_contract(p, 3), Effort::kAll);
    for (const ExpectedTensor& tensor : expected.tensors) {
      for (double worst : tensor.worst) {
        EXPECT_EQ(worst == 0, tensor.spec.name != "norm") << tensor.spec.name;
      }
    }
    EXPECT_LT(expected.find("norm")->worst[0], 1e-4 * expected.find("norm")->want[0]);
  }
}

// A norm that is certainly not above the largest gives a factor of exactly 1.
TEST(TrainingStepBound, TheFactorIsUncertainOnlyWhereTheNormIs) {
  const ProductRule rule(Precision{}, true);
  EXPECT_EQ(clip_factor({2, 0.5, 0.25}, 3, rule).worst, 0);
  EXPECT_EQ(clip_factor({0, 0, 0}, 3, rule).value, 1);
  const Uncertain near = clip_factor({2.75, 0.5, 0.125}, 3, rule);
  EXPECT_EQ(near.value, 1);
  EXPECT_GE(near.worst, 1 - 3 / 3.25);
  EXPECT_EQ(near.likely, 0);
  const Uncertain above = clip_factor({6, 1, 1}, 3, rule);
  EXPECT_EQ(above.value, 0.5);
  EXPECT_GE(above.worst, 3.0 / 5 - 0.5);
  EXPECT_LT(above.worst, 0.11);
  EXPECT_EQ(clip_factor({6, kUnbounded, 1}, 3, rule).likely, kUnbounded);
}

// Squares that underflow or overflow in the subject's type.
TEST(TrainingStepBound, TheNormsSquaresMayLeaveTheRange) {
  const ProductRule rule(Precision{}, true);
  const auto error = [&](double value) {
    return norm_error<double>({{{value}, {Bound{}}}}, value, 1, rule).worst;
  };
  EXPECT_GE(error(1e-25), 1e-25);  // its square is 0 in f32
  EXPECT_LT(error(1e-25), 1e-22);
  EXPECT_LT(error(1e-10), 1e-16);
  EXPECT_LT(error(1e18), 1e12);
  EXPECT_EQ(error(1e20), kUnbounded);
  EXPECT_EQ(error(0), 0);
}

}  // namespace
}  // namespace shardproof
