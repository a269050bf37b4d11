#include "harness/model/require.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

TEST(RequireDeathTest, AbortsWithTheRuleThePlaceAndTheCase) {
  set_case_for_require("mlp tokens=3");
  EXPECT_DEATH(require(1 + 1 == 3, "sums add up"), "sums add up");
  EXPECT_DEATH(require(false, "sums add up"), "require_test.cpp");
  EXPECT_DEATH(require(false, "sums add up"), "mlp tokens=3");
}

TEST(Require, SaysNothingWhenTheRuleHolds) { require(true, "sums add up"); }

TEST(Error, KeepsItsText) {
  EXPECT_STREQ(Error("q must be 0 or more").what(), "q must be 0 or more");
}

}  // namespace
}  // namespace shardproof
