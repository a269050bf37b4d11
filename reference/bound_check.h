// For tests: comparing an emulation with bounds.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "harness/model/bound.h"
#include "harness/model/case.h"
#include "harness/model/operator.h"
#include "reference/emulation.h"

namespace shardproof {

using NamedTensors = std::map<std::string, std::vector<double>, std::less<>>;

// The largest errors in units of T1 and of T2; above 1: exceeded.
struct Worst {
  double t1 = 0;
  double t2 = 0;
  std::string where;
};

inline double ratio_of(double error, double bound) {
  if (bound == kUnbounded) return 0;
  if (!(error <= bound)) return std::isnan(error) ? 1e9 : std::max(error / bound, 1.0001);
  return bound > 0 ? error / bound : 0;
}

inline Worst compare(const NamedTensors& outputs, const Expected& expected) {
  Worst worst;
  for (const ExpectedTensor& tensor : expected.tensors) {
    const std::vector<double>& got = outputs.find(tensor.spec.name)->second;
    EXPECT_EQ(got.size(), tensor.want.size()) << tensor.spec.name;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double error = std::fabs(got[i] - tensor.want[i]);
      EXPECT_LE(tensor.likely[i], tensor.worst[i]) << tensor.spec.name;
      worst.t1 = std::max(worst.t1, ratio_of(error, tensor.worst[i]));
      const double t2 = ratio_of(error, tensor.likely[i]);
      if (t2 <= worst.t2) continue;
      worst.t2 = t2;
      worst.where = std::string(tensor.spec.name) + "[" + std::to_string(i) + "]";
    }
  }
  return worst;
}

// The median of T2 in units of the tensor's root mean square.
inline double vagueness(const ExpectedTensor& tensor) {
  double squares = 0;
  for (double want : tensor.want) squares += want * want;
  std::vector<double> likely = tensor.likely;
  const auto middle = likely.begin() + static_cast<std::ptrdiff_t>(likely.size() / 2);
  std::nth_element(likely.begin(), middle, likely.end());
  return *middle / std::sqrt(squares / static_cast<double>(likely.size()));
}

// A contract that a subject for this dtype may declare.
inline Contract contract_for(DType dtype, Dice& dice) {
  Contract contract;
  Precision& p = contract.precision;
  p.io = dtype;
  for (DType* type : {&p.accumulator, &p.elementwise, &p.score, &p.probability, &p.score_gradient,
                      &p.saved_out, &p.lse, &p.block_out, &p.query_gradient, &p.kv_gradient,
                      &p.operand, &p.middle, &p.reduction}) {
    *type = accumulator_of(dtype);
  }
  if (dice.chance(60)) p.middle = dtype;
  if (dice.chance(50)) p.probability = dtype;
  if (dice.chance(50)) p.score_gradient = dtype;
  if (dice.chance(70)) p.saved_out = dtype;
  if (dice.chance(30)) p.reduction = dtype;
  if (dtype == DType::kTf32 || (dtype == DType::kF32 && dice.chance(25))) {
    p.operand = DType::kTf32;
  }
  return contract;
}

// Everything but middle tensors in f32; what is summed, and the tokens, in random parts.
inline Contract plain_mlp_contract(const Problem& p, Index parts) {
  Contract contract;
  contract.precision.io = contract.precision.middle = p.dtype;
  Dice dice(2);
  contract.partitions.summed = dice.partition(p.hidden, parts);
  contract.partitions.queries = dice.partition(p.tokens, parts);
  return contract;
}

inline std::string describe(const Contract& c, Summation summation) {
  const auto name = [](DType type) { return std::string(format(type).name); };
  return " middle=" + name(c.precision.middle) + " reduction=" + name(c.precision.reduction) +
         " operand=" + name(c.precision.operand) + " probability=" + name(c.precision.probability) +
         " parts=" + std::to_string(c.partitions.summed.size()) +
         " summation=" + std::to_string(static_cast<int>(summation));
}

// How many random cases a test runs; the environment may ask for a soak.
inline int cases_to_run(int few) {
  const char* given = std::getenv("SHARDPROOF_SOAK");
  return given ? std::atoi(given) : few;
}

// Random problems under random contracts, emulated honestly: no error exceeds T1 or T2.
// `cut(contract, problem, dice)` draws the partitions, `judge(problem, contract, summation)`
// emulates.
template <class Draw, class Cut, class Judge>
void expect_honest_contracts_hold(std::uint64_t seed, int cases, Draw random_problem, Cut cut,
                                  Judge judge) {
  Dice dice(seed);
  Worst worst;
  for (int i = 0; i < cases_to_run(cases); ++i) {
    const Problem problem = random_problem(dice);
    Contract contract = contract_for(problem.dtype, dice);
    auto summation = static_cast<Summation>(dice.below(6));
    if (problem.dtype == DType::kF64 && summation == Summation::kTruncating) {
      summation = Summation::kFused;
    }
    contract.precision.truncating = summation == Summation::kTruncating;
    cut(contract, problem, dice);
    const Worst at = judge(problem, contract, summation);
    ASSERT_LE(at.t1, 1) << to_text(problem) << describe(contract, summation) << " at " << at.where;
    ASSERT_LE(at.t2, 1) << to_text(problem) << describe(contract, summation) << " at " << at.where;
    worst.t1 = std::max(worst.t1, at.t1);
    worst.t2 = std::max(worst.t2, at.t2);
  }
  std::printf("largest error: %.3f of T1, %.3f of T2\n", worst.t1, worst.t2);
}

// Less effort gives the same values and T2, and leaves out what was not asked for.
inline void expect_efforts_agree(const Problem& problem, const Contract& contract) {
  const Expected values = problem.op->evaluate(problem, contract, Effort::kValues);
  const Expected likely = problem.op->evaluate(problem, contract, Effort::kLikely);
  const Expected all = problem.op->evaluate(problem, contract, Effort::kAll);
  for (std::size_t t = 0; t < all.tensors.size(); ++t) {
    EXPECT_EQ(values.tensors[t].want, all.tensors[t].want);
    EXPECT_TRUE(values.tensors[t].likely.empty());
    EXPECT_TRUE(values.tensors[t].worst.empty());
    EXPECT_EQ(likely.tensors[t].likely, all.tensors[t].likely);
    EXPECT_EQ(likely.tensors[t].worst.back(), kUnbounded);
    EXPECT_LT(all.tensors[t].worst.back(), kUnbounded);
  }
}

}  // namespace shardproof
