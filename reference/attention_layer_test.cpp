// The values of the attention layer: the definition, finite differences, edges.
#include "reference/attention_layer.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "harness/masks/masks.h"
#include "harness/model/bound.h"
#include "harness/model/case.h"
#include "reference/emulation.h"
#include "reference/wide_inputs.h"

namespace shardproof {
namespace {

const Mask* mask_named(std::string_view name) {
  for (const Mask* mask : all_masks()) {
    if (mask->name == name) return mask;
  }
  return nullptr;
}

Problem problem_for(std::string_view mask, DType dtype = DType::kF64) {
  Problem p;
  p.op = &attention_layer_operator();
  p.batch = 2;
  p.q = 5;
  p.features = 4;
  p.heads = 4;
  p.kv_heads = 2;
  p.dim = 3;
  p.dim_v = 2;
  p.mask = {mask_named(mask), 2, 1};
  p.dtype = dtype;
  p.seed = 23;
  p.op->repair(p);
  return p;
}

// Row `token` of x w + b for one head.
Wide projected(const Problem& p, Inputs& in, char name, Index token, Index head, Index heads,
               Index width) {
  const Wide& w = in[std::string("w") + name];
  const Wide& b = in[std::string("b") + name];
  Wide row;
  for (Index d = 0; d < width; ++d) {
    long double sum = b[static_cast<std::size_t>(head * width + d)];
    for (Index f = 0; f < p.features; ++f) {
      sum += in["x"][static_cast<std::size_t>(token * p.features + f)] *
             w[static_cast<std::size_t>((f * heads + head) * width + d)];
    }
    row.push_back(sum);
  }
  return row;
}

long double dot(const Wide& a, const Wide& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0L);
}

long double logit(const Problem& p, const Wide& q, const Wide& k, Index i, Index j, Index head) {
  long double x = static_cast<long double>(effective_scale(p)) * dot(q, k);
  const long double cap = effective_softcap(p);
  if (cap > 0) x = cap * std::tanh(x / cap);
  if (p.bias == ScoreBias::kAlibi) {
    x -= static_cast<long double>(alibi_slope(p, head)) * std::abs(i - j);
  }
  return x;
}

// out of one head for one query, from the definition of softmax.
Wide attended(const Problem& p, Inputs& in, Index batch, Index i, Index head) {
  const Index kv_head = head / (p.heads / p.kv_heads);
  const Wide q = projected(p, in, 'q', batch * p.q + i, head, p.heads, p.dim);
  Wide out(static_cast<std::size_t>(p.dim_v));
  long double total = 0;
  for (Index j = 0; j < p.q; ++j) {
    Problem square = p;
    square.kv = p.q;
    if (!visible(square, batch, i, j)) continue;
    const Index token = batch * p.q + j;
    const Wide k = projected(p, in, 'k', token, kv_head, p.kv_heads, p.dim);
    const Wide v = projected(p, in, 'v', token, kv_head, p.kv_heads, p.dim_v);
    const long double weight = std::exp(logit(p, q, k, i, j, head));
    total += weight;
    for (std::size_t d = 0; d < v.size(); ++d) out[d] += weight * v[d];
  }
  for (long double& value : out) value = total > 0 ? value / total : 0;
  return out;
}

Wide forward(const Problem& p, Inputs& in) {
  Wide y;
  for (Index token = 0; token < p.batch * p.q; ++token) {
    Wide row = in["bo"];
    for (Index head = 0; head < p.heads; ++head) {
      const Wide out = attended(p, in, token / p.q, token % p.q, head);
      for (std::size_t d = 0; d < out.size(); ++d) {
        for (std::size_t f = 0; f < row.size(); ++f) {
          const std::size_t hidden = static_cast<std::size_t>(head * p.dim_v) + d;
          row[f] += out[d] * in["wo"][hidden * row.size() + f];
        }
      }
    }
    y.insert(y.end(), row.begin(), row.end());
  }
  return y;
}

std::vector<Problem> varied_problems() {
  std::vector<Problem> problems{problem_for("none"), problem_for("causal"), problem_for("blind")};
  problems[1].softcap = 2.5;
  problems[2].bias = ScoreBias::kAlibi;
  problems[2].scale = 0.3;
  return problems;
}

TEST(AttentionLayer, OutputsFollowTheDefinition) {
  for (const Problem& p : varied_problems()) {
    Inputs inputs = wide_inputs_of(p);
    const Wide y = forward(p, inputs);
    const Expected expected = p.op->evaluate(p, {}, Effort::kValues);
    ASSERT_EQ(expected.find("y")->want.size(), y.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_NEAR(expected.find("y")->want[i], static_cast<double>(y[i]), 1e-14);
    }
  }
}

TEST(AttentionLayer, GradientsAreThoseOfFiniteDifferences) {
  const long double h = 1e-5L;
  for (const Problem& p : varied_problems()) {
    Inputs inputs = wide_inputs_of(p);
    const Wide dy = inputs["dy"];
    const Expected expected = p.op->evaluate(p, {}, Effort::kValues);
    for (auto& [name, values] : inputs) {
      if (name == "dy") continue;
      const std::vector<double>& gradient = expected.find("d" + name)->want;
      expect_differences(
          values, gradient, [&] { return dot(forward(p, inputs), dy); }, h, 1e-7, name + to_text(p),
          1 + values.size() / 7);
    }
  }
}

TEST(AttentionLayer, HowTheHeadsAreCutChangesNoValue) {
  const Problem p = problem_for("causal", DType::kF32);
  Contract contract;
  const Expected whole = p.op->evaluate(p, contract, Effort::kAll);
  for (const Partition& parts : {Partition{{0, 1}, {2, 3}}, Partition{{3}, {0, 2}, {}, {1}}}) {
    contract.partitions.summed = parts;
    const Expected cut = p.op->evaluate(p, contract, Effort::kAll);
    for (std::size_t t = 0; t < whole.tensors.size(); ++t) {
      ASSERT_EQ(cut.tensors[t].want.size(), whole.tensors[t].want.size());
      for (std::size_t i = 0; i < whole.tensors[t].want.size(); ++i) {
        EXPECT_NEAR(whole.tensors[t].want[i], cut.tensors[t].want[i], 1e-13);
        EXPECT_LT(cut.tensors[t].worst[i], 1e-3);
      }
    }
  }
}

TEST(AttentionLayer, EffortsAgreeOnValuesAndNearlyOnT2) {
  const Problem p = problem_for("causal", DType::kBf16);
  Contract contract;
  contract.precision.io = contract.precision.middle = DType::kBf16;
  const Expected values = p.op->evaluate(p, contract, Effort::kValues);
  const Expected likely = p.op->evaluate(p, contract, Effort::kLikely);
  const Expected all = p.op->evaluate(p, contract, Effort::kAll);
  for (std::size_t t = 0; t < all.tensors.size(); ++t) {
    EXPECT_EQ(values.tensors[t].want, all.tensors[t].want);
    EXPECT_TRUE(values.tensors[t].likely.empty());
    for (std::size_t i = 0; i < all.tensors[t].want.size(); ++i) {
      EXPECT_EQ(likely.tensors[t].worst[i], kUnbounded);
      EXPECT_LT(all.tensors[t].worst[i], kUnbounded);
      EXPECT_GE(likely.tensors[t].likely[i], all.tensors[t].likely[i] * (1 - 1e-6));
      EXPECT_LE(likely.tensors[t].likely[i], all.tensors[t].likely[i] * 4);
    }
  }
}

TEST(AttentionLayer, ExtentsMayBeZero) {
  for (int zero = 1; zero < 8; ++zero) {
    Problem p = problem_for("causal", DType::kF32);
    if (zero & 1) p.batch = 0;
    if (zero & 2) p.q = 0;
    if (zero & 4) p.features = 0;
    p.op->repair(p);
    for (const ExpectedTensor& tensor : p.op->evaluate(p, {}, Effort::kAll).tensors) {
      EXPECT_EQ(static_cast<Index>(tensor.want.size()), tensor.spec.shape.elements());
      EXPECT_EQ(tensor.likely.size(), tensor.want.size());
      for (double bound : tensor.likely) EXPECT_LT(bound, 1e-3) << tensor.spec.name;
    }
  }
}

TEST(AttentionLayer, TensorsComeInTheirOrder) {
  std::string names;
  const Problem p = problem_for("causal");
  for (const TensorSpec& spec : p.op->tensors(p)) names += std::string(spec.name) + " ";
  EXPECT_EQ(names, "x wq bq wk bk wv bv wo bo dy y dx dwq dbq dwk dbk dwv dbv dwo dbo ");
  std::string expected_names;
  for (const ExpectedTensor& tensor : p.op->evaluate(p, {}, Effort::kValues).tensors) {
    expected_names += std::string(tensor.spec.name) + " ";
  }
  EXPECT_EQ(expected_names, "y dx dwq dbq dwk dbk dwv dbv dwo dbo ");
}

TEST(AttentionLayer, RepairIsTotalAndIdempotent) {
  Dice dice(5);
  for (int i = 0; i < 2000; ++i) {
    Problem p = problem_for("causal");
    for (Index* extent : {&p.batch, &p.q, &p.kv, &p.features, &p.heads, &p.kv_heads, &p.dim,
                          &p.dim_v, &p.edit_at, &p.mask.a}) {
      *extent = dice.below(9) - 3;
    }
    p.edit = static_cast<Edit>(dice.below(8));
    p.bias = static_cast<ScoreBias>(dice.below(3));
    p.op->repair(p);
    EXPECT_EQ(p.op->broken_rule(p), "");
    EXPECT_EQ(p.kv, p.q);
    Problem again = p;
    again.op->repair(again);
    EXPECT_EQ(again, p);
  }
}

TEST(AttentionLayer, ABrokenRuleNamesTheValueAndTheChoices) {
  Problem p = problem_for("causal");
  p.features = -1;
  EXPECT_EQ(p.op->broken_rule(p), "features is -1; allowed: 0 and more");
  p.features = 1;
  p.bias = ScoreBias::kDense;
  EXPECT_NE(p.op->broken_rule(p).find("allowed: none, alibi"), std::string::npos);
}

}  // namespace
}  // namespace shardproof
