#include "reference/eight.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "harness/masks/masks.h"
#include "reference/attention.h"
#include "reference/attention_random.h"

namespace shardproof {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Magnitudes from 1e-300 to 700, both signs, never two lanes alike.
Eight spread(int step) {
  Eight x;
  for (int lane = 0; lane < Eight::kCount; ++lane) {
    const double magnitude = 700.0 * std::pow(0.9, step) * (lane < 4 ? 1 : 1e-100 * lane);
    x.set(lane, lane % 2 == 0 ? magnitude : -magnitude / (lane + 1));
  }
  return x;
}

TEST(Eight, ExpIsRightToTwoUnitsOfTheLastPlace) {
  for (int step = 0; step < 600; ++step) {
    const Eight x = spread(step);
    const Eight got = exp(x);
    for (int lane = 0; lane < Eight::kCount; ++lane) {
      const double want = std::exp(x[lane]);
      ASSERT_LE(std::fabs(got[lane] - want), 4e-16 * want) << x[lane];
    }
  }
}

TEST(Eight, TanhIsRightNearZeroToo) {
  for (int step = 0; step < 600; ++step) {
    const Eight x = spread(step);
    const Eight got = tanh(x);
    for (int lane = 0; lane < Eight::kCount; ++lane) {
      const double want = std::tanh(x[lane]);
      ASSERT_LE(std::fabs(got[lane] - want), 1e-15 * std::fabs(want)) << x[lane];
    }
  }
}

TEST(Eight, KeepsNanInItsLaneAndSaturatesElsewhere) {
  Eight x(0);
  x.set(1, std::numeric_limits<double>::quiet_NaN());
  x.set(2, -kInfinity);
  x.set(3, kInfinity);
  const Eight grown = exp(x);
  const Eight bent = tanh(x);
  EXPECT_EQ(grown[0], 1);
  EXPECT_TRUE(std::isnan(grown[1]) && std::isnan(bent[1]));
  EXPECT_LE(grown[2], 1e-307);
  EXPECT_EQ(bent[2], -1);
  EXPECT_GE(grown[3], 1e307);
  EXPECT_EQ(bent[3], 1);
  EXPECT_EQ(bent[0], 0);
}

// Lane `lane` holds `values` scaled by lane + 1.
std::vector<Eight> scaled(const std::vector<double>& values) {
  std::vector<Eight> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (int lane = 0; lane < Eight::kCount; ++lane) result[i].set(lane, (lane + 1) * values[i]);
  }
  return result;
}

std::vector<double> lane_of(const std::vector<Eight>& values, int lane) {
  std::vector<double> result;
  for (const Eight& value : values) result.push_back(value[lane]);
  return result;
}

void expect_close(const std::vector<double>& want, const std::vector<Eight>& got, int lane) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 0;
  for (double value : want)
    largest = std::max(largest, std::isfinite(value) ? std::fabs(value) : 0);
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (got[i][lane] == want[i]) continue;  // lse of a blind row is infinite
    ASSERT_LE(std::fabs(got[i][lane] - want[i]), 1e-12 * largest) << i << " of lane " << lane;
  }
}

TEST(Eight, EveryLaneOfAttentionIsAnAttentionOfItsOwn) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Draw draw(seed);
    Problem p = random_problem(draw, 12);
    p.dtype = DType::kF32;
    p.data = DataRecipe::kNormal;
    p.edit = Edit::kNone;
    p.op->repair(p);
    NamedTensors in = inputs_of(p);
    const auto q = scaled(in["q"]), k = scaled(in["k"]), v = scaled(in["v"]);
    const auto bias = scaled(in["bias"]), dout = scaled(in["dout"]), dlse = scaled(in["dlse"]);
    const auto sink = scaled(in["sink"]);
    const AttentionValues<Eight> got =
        attention_values<Eight>(p, {q, k, v, bias, dout, dlse, sink});
    for (int lane : {0, 3, 7}) {
      const auto of = [&](const std::vector<Eight>& operand) { return lane_of(operand, lane); };
      const auto ql = of(q), kl = of(k), vl = of(v), bl = of(bias), ol = of(dout), ll = of(dlse);
      const auto sl = of(sink);
      const AttentionValues<double> want =
          attention_values<double>(p, {ql, kl, vl, bl, ol, ll, sl});
      expect_close(want.out, got.out, lane);
      expect_close(want.lse, got.lse, lane);
      expect_close(want.dq, got.dq, lane);
      expect_close(want.dk, got.dk, lane);
      expect_close(want.dv, got.dv, lane);
      expect_close(want.dbias, got.dbias, lane);
      expect_close(want.dsink, got.dsink, lane);
    }
  }
}

}  // namespace
}  // namespace shardproof
