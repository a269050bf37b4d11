#include "harness/check/limits.h"

#include <gtest/gtest.h>

#include <limits>

#include "harness/check/compare.h"

namespace shardproof {
namespace {

TEST(Limits, AQuantileIsReachedByThatShareOfTheCases) {
  Limits limits;
  EXPECT_EQ(limits.quantile(0.5), 0);
  for (int i = 0; i < 60; ++i) limits.add(0x1.8p-10);
  for (int i = 0; i < 40; ++i) limits.add(0x1.8p-3);
  EXPECT_EQ(limits.quantile(0.5), 0x1p-9);
  EXPECT_EQ(limits.quantile(0.9), 0x1p-2);
}

TEST(Limits, WhatCannotBeSeenOrChangedIsLeftOut) {
  Limits limits;
  for (double each : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                      std::numeric_limits<double>::quiet_NaN()}) {
    limits.add(each);
  }
  EXPECT_EQ(limits.total(), 0u);
}

TEST(Limits, TheDetectionLimitIsWhereComparisonBegins) {
  ExpectedTensor want;
  want.spec.shape = {3};
  want.want = {1, -8, 0};
  want.likely = want.worst = {0.125, 0.25, 1};
  const double limit = detection_limit(want);
  EXPECT_EQ(limit, 0.03125);
  Gathered got{want.spec, want.want};
  for (double& value : got.got) value *= 1 + 0.9 * limit;
  EXPECT_EQ(compare(got, want).symptom, "");
  got.got = want.want;
  for (double& value : got.got) value *= 1 + 1.1 * limit;
  EXPECT_NE(compare(got, want).symptom, "");
}

TEST(Limits, TheBaselineRuleSeesTwiceItsLargestError) {
  ExpectedTensor want;
  want.want = {1, -8};
  EXPECT_EQ(baseline_limit({want.spec, {1.5, -8}}, want), 0.125);
}

}  // namespace
}  // namespace shardproof
