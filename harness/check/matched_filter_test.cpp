#include "harness/check/matched_filter.h"

#include <gtest/gtest.h>

#include <memory>

#include "harness/model/element.h"
#include "reference/operators.h"

namespace shardproof {
namespace {

// A run of a gelu mlp whose errors are uniform and as large as the model says, plus `share` times
// what the first hypothesis would change.
Run run_with(double share, std::uint64_t seed) {
  Run run;
  Problem& p = run.value.problem;
  for (const Operator* each : all_operators()) {
    if (each->name == "mlp") p.op = each;
  }
  p.tokens = p.features = p.hidden = p.outputs = 48;
  p.activation = Activation::kGelu;
  p.dtype = DType::kBf16;
  p.seed = seed;
  run.contract.precision.io = run.contract.precision.middle = DType::kBf16;
  auto expected = std::make_shared<Expected>(p.op->evaluate(p, run.contract, Effort::kLikely));
  for (const ExpectedTensor& want : expected->tensors) {
    Gathered got{want.spec, want.want};
    for (std::size_t i = 0; i < got.got.size(); ++i) {
      const double uniform = static_cast<double>(mix(seed + 31 * i) >> 11) * 0x1p-52 - 1;
      got.got[i] += 1.7320508 * uniform * want.sigma[i];
    }
    run.outcome.tensors.push_back(std::move(got));
  }
  const auto alternative = p.op->hypotheses[0].alternative(p, run.contract, *expected);
  for (const ExpectedTensor& other : alternative) {
    for (Gathered& got : run.outcome.tensors) {
      if (got.spec.name != other.spec.name) continue;
      const std::vector<double>& want = expected->find(other.spec.name)->want;
      for (std::size_t i = 0; i < want.size(); ++i) got.got[i] += share * (other.want[i] - want[i]);
    }
  }
  run.expected = [expected](Effort) -> const Expected& { return *expected; };
  return run;
}

TEST(MatchedFilter, MeasuresHowMuchOfAFaultIsInErrorsThatHideIt) {
  for (double share : {-1.0, 0.0, 0.25, 1.0, 3.0}) {
    const auto run = run_with(share, 11);
    const Fit found = fit(run, run.value.problem.op->hypotheses[0]);
    EXPECT_GT(found.power, kLeastPower);
    EXPECT_NEAR(found.share, share, 4 / found.power) << share;
    EXPECT_EQ(fits(found), share == 1.0) << share;
  }
}

TEST(MatchedFilter, NothingFitsWithoutPower) {
  EXPECT_FALSE(fits({1, kLeastPower - 1}));
  EXPECT_TRUE(fits({1, kLeastPower}));
  EXPECT_FALSE(fits({}));
}

}  // namespace
}  // namespace shardproof
