#include "harness/check/noise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/model/element.h"

namespace shardproof {
namespace {

constexpr Index kSide = 32;

ExpectedTensor expected() {
  ExpectedTensor want;
  want.spec = {.name = "dk", .kind = TensorKind::kGradient, .shape = {kSide, kSide}};
  want.want.assign(kSide * kSide, 1.0);
  want.sigma.assign(kSide * kSide, 1e-3);
  return want;
}

// Independent errors of RMS `size` times the model's.
Gathered run(const ExpectedTensor& want, std::uint64_t seed, double size) {
  Gathered got{want.spec, want.want};
  for (std::size_t i = 0; i < got.got.size(); ++i) {
    const double uniform = static_cast<double>(mix(mix(seed) + i) >> 11) * 0x1p-53 - 0.5;
    got.got[i] += size * want.sigma[i] * uniform * std::sqrt(12.0);
  }
  return got;
}

TEST(Noise, RunsThatRoundAlikeAreAlike) {
  const ExpectedTensor want = expected();
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    EXPECT_FALSE(compare_noise(run(want, 2 * seed, 1), run(want, 2 * seed + 1, 1), want).exceeds());
  }
}

TEST(Noise, AValueRoundedTwiceIsNoisier) {
  const ExpectedTensor want = expected();
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Gathered twice = run(want, seed, std::sqrt(2.0));
    const Noise noise = compare_noise(twice, run(want, seed + 1000, 1), want);
    EXPECT_TRUE(noise.exceeds()) << noise.ratio << " of " << noise.allowed;
  }
}

// One row, or one column, holds nearly all: its share of luck is that of a single error.
TEST(Noise, AFewElementsThatDominateAreNoEvidence) {
  const ExpectedTensor want = expected();
  for (Index stride : {Index{1}, kSide}) {
    Gathered many = run(want, 1, 1);
    for (Index i = 0; i < kSide; ++i) {
      many.got[static_cast<std::size_t>(i * stride)] += 30 * want.sigma[0];
    }
    EXPECT_FALSE(compare_noise(many, run(want, 2, 1), want).exceeds()) << stride;
  }
}

TEST(Noise, ErrorsAgainstNoneAreNoisierAndNoneIsNot) {
  const ExpectedTensor want = expected();
  const Gathered exact{want.spec, want.want};
  EXPECT_FALSE(compare_noise(exact, exact, want).exceeds());
  EXPECT_FALSE(compare_noise(exact, run(want, 1, 1), want).exceeds());
  EXPECT_TRUE(compare_noise(run(want, 1, 1), exact, want).exceeds());
}

TEST(Noise, NotANumberIsNoisier) {
  const ExpectedTensor want = expected();
  Gathered many = run(want, 1, 1);
  many.got[7] = std::nan("");
  EXPECT_TRUE(compare_noise(many, run(want, 2, 1), want).exceeds());
}

}  // namespace
}  // namespace shardproof
