#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/masks/masks.h"
#include "harness/model/case.h"
#include "reference/attention.h"
#include "reference/attention_random.h"

namespace shardproof {
namespace {

AttentionInputs<double> view_of(const NamedTensors& in) {
  const auto get = [&](const char* name) {
    const auto found = in.find(name);
    return found == in.end() ? std::span<const double>{} : std::span<const double>(found->second);
  };
  return {get("q"), get("k"), get("v"), get("bias"), get("dout"), get("dlse"), get("sink")};
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i])) sum += a[i] * b[i];
  }
  return sum;
}

// <out, dout> + <lse, dlse>: what the gradients are the gradient of.
double loss(const Problem& problem, const NamedTensors& in) {
  const auto values = attention_values(problem, view_of(in));
  return dot(values.out, in.find("dout")->second) + dot(values.lse, in.find("dlse")->second);
}

// The largest deviation of `gradient` from central differences of the loss.
double deviation(const Problem& problem, NamedTensors in, const std::string& name,
                 const std::vector<double>& gradient) {
  const double step = 1e-5;
  double most = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double at = in[name][i];
    in[name][i] = at + step;
    const double up = loss(problem, in);
    in[name][i] = at - step;
    const double down = loss(problem, in);
    in[name][i] = at;
    most = std::max(most, std::fabs((up - down) / (2 * step) - gradient[i]));
  }
  return most;
}

Problem plain_problem(const char* mask) {
  Problem p;
  p.op = &attention_operator();
  for (const Mask* candidate : all_masks()) {
    if (candidate->name == mask) p.mask.mask = candidate;
  }
  p.dtype = DType::kF64;
  return p;
}

TEST(AttentionValues, GradientsAreThoseOfCentralDifferences) {
  const std::vector<const Mask*> masks = all_masks();
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    Draw draw(seed);
    Problem p = random_problem(draw, 6);
    p.mask.mask = masks[seed % masks.size()];
    p.bias = static_cast<ScoreBias>(seed / masks.size() % 3);
    p.data = seed % 2 ? DataRecipe::kNormal : DataRecipe::kCoordinates;
    p.dtype = DType::kF64;
    p.edit = Edit::kNone;
    p.op->repair(p);
    const NamedTensors in = inputs_of(p);
    const auto values = attention_values(p, view_of(in));
    EXPECT_LT(deviation(p, in, "q", values.dq), 2e-8) << to_text(p);
    EXPECT_LT(deviation(p, in, "k", values.dk), 2e-8) << to_text(p);
    EXPECT_LT(deviation(p, in, "v", values.dv), 2e-8) << to_text(p);
    if (p.bias == ScoreBias::kDense) {
      EXPECT_LT(deviation(p, in, "bias", values.dbias), 2e-8) << to_text(p);
    }
    if (p.sink) {
      EXPECT_LT(deviation(p, in, "sink", values.dsink), 2e-8) << to_text(p);
    }
  }
}

TEST(AttentionValues, ADifferenceTestCanFail) {
  const Problem p = [] {
    Problem drawn = plain_problem("causal");
    drawn.q = drawn.kv = 5;
    drawn.dim = drawn.dim_v = 3;
    return drawn;
  }();
  const NamedTensors in = inputs_of(p);
  auto values = attention_values(p, view_of(in));
  values.dq[4] += 1e-6;
  EXPECT_GT(deviation(p, in, "q", values.dq), 5e-7);
  EXPECT_GT(deviation(p, in, "q", values.dk), 1e-3);
}

TEST(AttentionValues, EqualScoresAverageTheVisibleValues) {
  Problem p = plain_problem("causal");
  p.q = p.kv = 7;
  p.dim_v = 3;
  NamedTensors in = inputs_of(p);
  in["q"].assign(in["q"].size(), 0);
  const auto values = attention_values(p, view_of(in));
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_NEAR(values.lse[i], std::log(i + 1.0), 1e-14);
    for (std::size_t d = 0; d < 3; ++d) {
      double mean = 0;
      for (std::size_t j = 0; j <= i; ++j) mean += in["v"][j * 3 + d] / (i + 1.0);
      EXPECT_NEAR(values.out[i * 3 + d], mean, 1e-14);
    }
  }
  // dv of key j: the average's weight from every query that sees it.
  for (std::size_t j = 0; j < 7; ++j) {
    double sum = 0;
    for (std::size_t i = j; i < 7; ++i) sum += in["dout"][i * 3] / (i + 1.0);
    EXPECT_NEAR(values.dv[j * 3], sum, 1e-14);
  }
}

TEST(AttentionValues, AnOverwhelmingScorePicksOneValue) {
  Problem p = plain_problem("none");
  p.q = p.kv = p.dim = 4;
  p.dim_v = 2;
  p.scale = 1;
  NamedTensors in = inputs_of(p);
  for (std::size_t i = 0; i < 16; ++i) {
    in["q"][i] = i / 4 == i % 4 ? 1000 : 0;
    in["k"][i] = (i / 4 + 1) % 4 == i % 4 ? 1 : 0;  // key j matches query j + 1
  }
  const auto values = attention_values(p, view_of(in));
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t j = (i + 3) % 4;
    EXPECT_EQ(values.lse[i], 1000);
    for (std::size_t d = 0; d < 2; ++d) {
      EXPECT_EQ(values.out[i * 2 + d], in["v"][j * 2 + d]);
      EXPECT_EQ(values.dv[j * 2 + d], in["dout"][i * 2 + d]);
    }
    // Only dlse moves the scores: dS is the one-hot times dlse.
    for (std::size_t d = 0; d < 4; ++d) {
      EXPECT_NEAR(values.dq[i * 4 + d], in["dlse"][i] * in["k"][j * 4 + d], 1e-12);
    }
  }
}

TEST(AttentionValues, QueriesWithoutKeysGiveZeroAndMinusInfinity) {
  Problem p = plain_problem("blind");
  p.q = 5;
  p.kv = 3;
  p.dim = p.dim_v = 2;
  p.mask.a = 1;
  p.mask.b = 2;
  p.bias = ScoreBias::kDense;
  const NamedTensors in = inputs_of(p);
  const auto values = attention_values(p, view_of(in));
  for (std::size_t i = 0; i < 5; ++i) {
    const bool blind = i == 1 || i == 2;
    EXPECT_EQ(values.lse[i] == -std::numeric_limits<double>::infinity(), blind);
    for (std::size_t d = 0; d < 2; ++d) {
      EXPECT_EQ(values.out[i * 2 + d] == 0, blind);
      EXPECT_EQ(values.dq[i * 2 + d] == 0, blind);
    }
    for (std::size_t j = 0; j < 3; ++j) EXPECT_EQ(values.dbias[i * 3 + j] == 0, blind);
  }
  // Whatever a blind query brings, nothing of it reaches dk and dv.
  NamedTensors other = in;
  other["q"][2] += 1;
  other["dout"][4] += 1;
  other["dlse"][1] += 1;
  const auto moved = attention_values(p, view_of(other));
  EXPECT_EQ(moved.dk, values.dk);
  EXPECT_EQ(moved.dv, values.dv);
  other["dout"][0] += 1;
  EXPECT_NE(attention_values(p, view_of(other)).dv, values.dv);
}

// A sink is a key with a logit of its own and the value 0.
TEST(AttentionValues, ASinkIsAKeyWithoutAValue) {
  Problem p = plain_problem("none");
  p.q = 5;
  p.kv = 4;
  p.dim_v = 3;
  p.bias = ScoreBias::kDense;
  Problem sunk = p;
  sunk.sink = true;
  NamedTensors in = inputs_of(sunk);
  const auto values = attention_values(sunk, view_of(in));
  p.kv = 5;
  NamedTensors other = inputs_of(p);
  const double sink = in["sink"][0];
  for (std::size_t j = 0; j < 5; ++j) {
    other["k"][j] = j < 4 ? in["k"][j] : 0;
    for (std::size_t d = 0; d < 3; ++d) other["v"][j * 3 + d] = j < 4 ? in["v"][j * 3 + d] : 0;
    for (std::size_t i = 0; i < 5; ++i) {
      other["bias"][i * 5 + j] = j < 4 ? in["bias"][i * 4 + j] : sink;
    }
  }
  const auto widened = attention_values(p, view_of(other));
  double gradient = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(values.lse[i], widened.lse[i], 1e-14);
    for (std::size_t d = 0; d < 3; ++d) {
      EXPECT_NEAR(values.out[i * 3 + d], widened.out[i * 3 + d], 1e-14);
    }
    gradient += widened.dbias[i * 5 + 4];
  }
  EXPECT_NEAR(values.dsink[0], gradient, 1e-14);
}

TEST(AttentionValues, WithoutKeysTheSinkTakesEverything) {
  Problem p = plain_problem("blind");
  p.q = 3;
  p.kv = 2;
  p.mask.a = 0;
  p.mask.b = 3;
  p.sink = true;
  NamedTensors in = inputs_of(p);
  const auto values = attention_values(p, view_of(in));
  EXPECT_EQ(values.out, std::vector<double>(3, 0.0));
  EXPECT_EQ(values.lse, std::vector<double>(3, in["sink"][0]));
  EXPECT_DOUBLE_EQ(values.dsink[0], in["dlse"][0] + in["dlse"][1] + in["dlse"][2]);
}

// Dropped pairs still count in the row sum; kept ones weigh more.
TEST(AttentionValues, DropoutLeavesOutValuesAndNotScores) {
  Problem p = plain_problem("none");
  p.q = 6;
  p.kv = 8;
  p.dim_v = 2;
  const NamedTensors in = inputs_of(p);
  const auto whole = attention_values(p, view_of(in));
  p.dropout = 0.5;
  const auto values = attention_values(p, view_of(in));
  EXPECT_EQ(values.lse, whole.lse);
  int dropped = 0;
  for (Index i = 0; i < 6; ++i) {
    double out = 0;
    for (Index j = 0; j < 8; ++j) {
      const auto query = static_cast<std::size_t>(i);
      const auto key = static_cast<std::size_t>(j);
      const double logit = in.find("q")->second[query] * in.find("k")->second[key];
      const bool kept = is_kept(p.seed, p.dropout, 0, 0, i, j);
      dropped += kept ? 0 : 1;
      const double weight = std::exp(logit - whole.lse[query]) * (kept ? 2 : 0);
      out += weight * in.find("v")->second[key * 2];
    }
    EXPECT_NEAR(values.out[static_cast<std::size_t>(2 * i)], out, 1e-14);
  }
  EXPECT_GT(dropped, 12);
  EXPECT_LT(dropped, 36);
}

TEST(AttentionValues, NoKeysAtAll) {
  Problem p = plain_problem("none");
  p.q = 2;
  p.kv = 0;
  const auto values = attention_values(p, view_of(inputs_of(p)));
  EXPECT_EQ(values.out, std::vector<double>(2, 0.0));
  EXPECT_EQ(values.lse[1], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(values.dq, std::vector<double>(2, 0.0));
  EXPECT_TRUE(values.dk.empty());
}

TEST(AttentionValues, NanInHiddenKeysDoesNotMatterAndInSeenOnesDoes) {
  Problem p = plain_problem("padding");
  p.batch = 2;
  p.q = 4;
  p.kv = 6;
  p.dim = p.dim_v = 3;
  p.mask.a = 5;
  const auto clean = attention_values(p, view_of(inputs_of(p)));
  p.edit = Edit::kHiddenNan;
  NamedTensors in = inputs_of(p);
  ASSERT_TRUE(std::isnan(in["k"][5 * 3]));
  const auto values = attention_values(p, view_of(in));
  EXPECT_EQ(values.out, clean.out);
  EXPECT_EQ(values.dk, clean.dk);
  in["v"][0] = std::nan("");
  EXPECT_TRUE(std::isnan(attention_values(p, view_of(in)).out[0]));
}

}  // namespace
}  // namespace shardproof
