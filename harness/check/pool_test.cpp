#include "harness/check/pool.h"

#include <gtest/gtest.h>

#include <limits>

#include "harness/model/element.h"

namespace shardproof {
namespace {

ExpectedTensor zeros(std::size_t count, double sigma, double likely) {
  ExpectedTensor want;
  want.want.assign(count, 0.0);
  want.likely.assign(count, likely);
  want.sigma.assign(count, sigma);
  return want;
}

// A pool of cases of four elements whose errors are uniform in [-scale, scale] * sqrt(3) sigma.
Pool pool_of(int cases, double scale) {
  Pool pool;
  std::uint64_t state = 7;
  for (int i = 0; i < cases; ++i) {
    Gathered got{{}, std::vector<double>(4)};
    for (double& each : got.got) {
      state = mix(state + 1);
      each = scale * 1.7320508 * (static_cast<double>(state >> 11) * 0x1p-52 - 1);
    }
    pool.add(mean_square_error(got, zeros(4, 1, 6)));
  }
  return pool;
}

TEST(Pool, ManySmallExcessesAddUpThatNoneShowsAlone) {
  EXPECT_FALSE(pool_of(4000, 1).exceeds());
  EXPECT_NEAR(pool_of(4000, 1).rms(), 1, 0.03);
  EXPECT_FALSE(pool_of(1, 1.5).exceeds());
  EXPECT_FALSE(pool_of(50, 1.5).exceeds());
  EXPECT_TRUE(pool_of(4000, 1.5).exceeds());
}

TEST(Pool, TheLimitFallsTowardsThatOfOneLargeTensor) {
  EXPECT_GT(pool_of(1, 1).limit(), 2.5);
  EXPECT_LT(pool_of(10000, 1).limit(), 1.1);
  EXPECT_GT(pool_of(10000, 1).limit(), 1.06);
}

TEST(Pool, OneCaseHasLittleWeightHoweverWrong) {
  Pool pool = pool_of(1000, 1);
  pool.add(1e30);
  EXPECT_FALSE(pool.exceeds());
}

TEST(Pool, OnlyElementsCountThatTheModelDescribes) {
  const Gathered got{{}, {1, 1, std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(mean_square_error(got, zeros(3, 0.5, 2)), 4);
  EXPECT_LT(mean_square_error(got, zeros(3, 0, 2)), 0);     // no error is possible
  EXPECT_LT(mean_square_error(got, zeros(3, 0.01, 2)), 0);  // one-sided errors dominate
  EXPECT_LT(mean_square_error(got, zeros(2, 1, 2)), 0);     // another shape
}

}  // namespace
}  // namespace shardproof
