#include "reference/hypotheses.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/masks/masks.h"
#include "harness/model/element.h"
#include "reference/attention.h"
#include "reference/mlp.h"
#include "reference/norm_mlp.h"

namespace shardproof {
namespace {

Problem small_attention() {
  Problem p;
  p.op = &attention_operator();
  for (const Mask* mask : all_masks()) {
    if (mask->name == "causal") p.mask.mask = mask;
  }
  p.q = p.kv = 4;
  p.dim = 3;
  p.dim_v = 2;
  p.softcap = 1.5;
  p.bias = ScoreBias::kAlibi;
  p.dtype = DType::kF32;
  p.seed = 5;
  return p;
}

const Hypothesis& hypothesis(const Operator& op, std::string_view part) {
  for (const Hypothesis& each : op.hypotheses) {
    if (each.says.find(part) != std::string_view::npos) return each;
  }
  ADD_FAILURE() << "no hypothesis about " << part;
  return op.hypotheses.front();
}

const std::vector<double>& want_of(const std::vector<ExpectedTensor>& tensors,
                                   std::string_view name) {
  for (const ExpectedTensor& each : tensors) {
    if (each.spec.name == name) return each.want;
  }
  ADD_FAILURE() << "no tensor " << name;
  return tensors.front().want;
}

std::vector<double> drawn(const Problem& p, std::string_view name) {
  for (const TensorSpec& spec : p.op->tensors(p)) {
    if (spec.name == name) return whole_tensor(p, spec);
  }
  return {};
}

// dq of one head from definitions, with or without the derivative of the softcap.
std::vector<double> dq_of(const Problem& p, const Expected& answer, bool with_slope) {
  const auto q = drawn(p, "q"), k = drawn(p, "k"), v = drawn(p, "v");
  const auto dout = drawn(p, "dout"), dlse = drawn(p, "dlse");
  const auto& out = answer.find("out")->want;
  const auto& lse = answer.find("lse")->want;
  std::vector<double> dq(12);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double score = 0, dp = 0, delta = 0;
      for (std::size_t c = 0; c < 3; ++c) score += q[3 * i + c] * k[3 * j + c];
      for (std::size_t c = 0; c < 2; ++c) {
        dp += dout[2 * i + c] * v[2 * j + c];
        delta += dout[2 * i + c] * out[2 * i + c];
      }
      score *= effective_scale(p);
      const double t = std::tanh(score / p.softcap);
      const double bias = -alibi_slope(p, 0) * static_cast<double>(i - j);
      const double weight = std::exp(p.softcap * t + bias - lse[i]);
      const double ds = weight * (dp - delta + dlse[i]) * (with_slope ? 1 - t * t : 1);
      for (std::size_t c = 0; c < 3; ++c) dq[3 * i + c] += effective_scale(p) * ds * k[3 * j + c];
    }
  }
  return dq;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
}

TEST(Hypotheses, WithoutTheSoftcapsDerivativeGradientsAreThoseOfTheDefinitionWithoutIt) {
  const Problem p = small_attention();
  const Expected answer = p.op->evaluate(p, {}, Effort::kValues);
  const Hypothesis& capless = hypothesis(*p.op, "softcap");
  ASSERT_TRUE(capless.concerns(p));
  expect_near(answer.find("dq")->want, dq_of(p, answer, true));
  const auto wrong = dq_of(p, answer, false);
  EXPECT_GT(std::fabs(wrong[4] - answer.find("dq")->want[4]), 1e-5);
  expect_near(want_of(capless.alternative(p, {}, answer), "dq"), wrong);
  Problem plain = p;
  plain.softcap = 0;
  EXPECT_FALSE(capless.concerns(plain));
}

TEST(Hypotheses, ARoundedScaleAndCutProbabilitiesAreFactors) {
  Problem p = small_attention();
  p.dtype = DType::kBf16;
  Contract contract;
  contract.precision.probability = DType::kBf16;
  const Expected answer = p.op->evaluate(p, contract, Effort::kValues);
  const auto scaled = hypothesis(*p.op, "scale").alternative(p, contract, answer);
  const double factor = round_to(DType::kBf16, effective_scale(p)) / effective_scale(p);
  EXPECT_NE(factor, 1);
  EXPECT_DOUBLE_EQ(want_of(scaled, "dk")[5], factor * answer.find("dk")->want[5]);
  const auto cut = hypothesis(*p.op, "backward pass cuts P").alternative(p, contract, answer);
  const double share = want_of(cut, "dv")[3] / answer.find("dv")->want[3];
  EXPECT_LT(share, 1);
  EXPECT_GT(share, 1 - 0x1p-8);
  p.dtype = DType::kF32;
  EXPECT_FALSE(hypothesis(*p.op, "backward pass cuts P").concerns(p));
}

TEST(Hypotheses, AnotherDerivativeOfGeluLeavesTheForwardPassAlone) {
  Problem p;
  p.op = &mlp_operator();
  p.tokens = p.features = p.hidden = p.outputs = 3;
  p.activation = Activation::kGelu;
  const Expected answer = p.op->evaluate(p, {}, Effort::kValues);
  const auto wrong = hypothesis(*p.op, "derivative of the other").alternative(p, {}, answer);
  EXPECT_NE(want_of(wrong, "dx"), answer.find("dx")->want);
  for (const ExpectedTensor& each : wrong) EXPECT_NE(each.spec.name, "y");
  p.activation = Activation::kSilu;
  EXPECT_FALSE(hypothesis(*p.op, "derivative of the other").concerns(p));
}

TEST(Hypotheses, WithoutEpsilonATokenHasTheNormItsVarianceGives) {
  Problem p;
  p.op = &norm_mlp_operator();
  p.tokens = 2;
  p.features = p.hidden = p.outputs = 3;
  p.epsilon = 0.5;
  const Expected answer = p.op->evaluate(p, {}, Effort::kValues);
  const auto without = hypothesis(*p.op, "epsilon").alternative(p, {}, answer);
  const auto x = drawn(p, "x");
  const double variance = (x[0] * x[0] + x[1] * x[1] + x[2] * x[2]) / 3;
  const double growth = want_of(without, "y")[0] / answer.find("y")->want[0];
  EXPECT_NEAR(growth, std::sqrt((variance + 0.5) / variance), 1e-9);
}

}  // namespace
}  // namespace shardproof
