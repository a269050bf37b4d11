#include <gtest/gtest.h>

#include <cmath>

#include "harness/masks/masks.h"
#include "reference/attention.h"
#include "reference/bound_check.h"

namespace shardproof {
namespace {

// One query and two keys; the one with a value has a probability of exp(-700) = 1e-304. The error
// of out is that of the exponential, 700 u, although its square and that of P underflow.
TEST(AttentionOutBound, CoversTheOnlyKeyThatCountsHoweverUnlikely) {
  Problem p;
  p.op = &attention_operator();
  p.mask.mask = all_masks().front();
  p.dtype = DType::kF64;
  p.kv = 2;
  p.scale = 1;
  Dice dice(1);
  const Contract contract = contract_for(p.dtype, dice);
  const std::vector<double> one{1}, zero{0}, keys{700, 0}, values{0, 1};
  const AttentionInputs<double> inputs{one, keys, values, {}, one, zero};
  const AttentionResult result = attention_bounds(p, inputs, {}, contract, true);
  const double error = 700 * 0x1p-53 * result.values.out[0];
  EXPECT_DOUBLE_EQ(result.values.out[0], std::exp(-700));
  EXPECT_GT(result.bounds.out[0].worst, error);
  EXPECT_LT(result.bounds.out[0].worst, 8 * error);
}

}  // namespace
}  // namespace shardproof
