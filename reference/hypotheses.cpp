#include "reference/hypotheses.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "harness/model/bound.h"
#include "harness/model/element.h"
#include "reference/attention.h"

namespace shardproof {
namespace {

using Alternative = std::vector<ExpectedTensor>;
using Names = std::initializer_list<std::string_view>;

// Cutting off instead of rounding leans toward zero by half a unit of the last place, which is this
// share of u relative to the value, on average over the significands of a logarithmic scale.
constexpr double kMeanCut = 0.72;

// The tensors of `answer` with these names, each element changed by `change`.
Alternative changed(const Expected& answer, Names names,
                    const std::function<double(double)>& change) {
  Alternative result;
  for (std::string_view name : names) {
    const ExpectedTensor* tensor = answer.find(name);
    if (tensor == nullptr) continue;
    result.push_back({tensor->spec, tensor->want, {}, {}, {}});
    for (double& value : result.back().want) value = change(value);
  }
  return result;
}

// The tensors with these names of another problem's answer.
Alternative of_other(const Problem& other, const Contract& contract, Names names) {
  const Expected answer = other.op->evaluate(other, contract, Effort::kValues);
  return changed(answer, names, [](double value) { return value; });
}

// The scores of a problem with one batch entry: what its softcap and its bias add to scale * q.k,
// as a dense bias. [heads, q, kv]
std::vector<double> softcap_as_bias(const Problem& p, const std::vector<double>& q,
                                    const std::vector<double>& k,
                                    const std::vector<double>& dense) {
  const double cap = effective_softcap(p);
  std::vector<double> bias;
  for (Index h = 0; h < p.heads; ++h) {
    const Index group = h * p.kv_heads / p.heads;
    for (Index i = 0; i < p.q; ++i) {
      for (Index j = 0; j < p.kv; ++j) {
        double score = 0;
        for (Index c = 0; c < p.dim; ++c) {
          score += q[static_cast<std::size_t>((i * p.heads + h) * p.dim + c)] *
                   k[static_cast<std::size_t>((j * p.kv_heads + group) * p.dim + c)];
        }
        score *= effective_scale(p);
        double added = cap * std::tanh(score / cap) - score;
        if (p.bias == ScoreBias::kDense) added += dense[bias.size()];
        if (p.bias == ScoreBias::kAlibi) {
          added -= alibi_slope(p, h) * std::fabs(static_cast<double>(i - j));
        }
        bias.push_back(added);
      }
    }
  }
  return bias;
}

// The same P without a softcap: its effect is a bias, through which no gradient flows to q and k.
bool has_softcap(const Problem& p) { return effective_softcap(p) != 0 && p.batch == 1; }

Alternative without_softcap_slope(const Problem& p, const Contract&, const Expected& answer) {
  const auto specs = p.op->tensors(p);
  const auto drawn = [&](std::string_view name) {
    const auto spec = std::find_if(specs.begin(), specs.end(),
                                   [&](const TensorSpec& each) { return each.name == name; });
    return spec == specs.end() ? std::vector<double>() : whole_tensor(p, *spec);
  };
  const auto q = drawn("q"), k = drawn("k"), v = drawn("v"), sink = drawn("sink");
  const auto dout = drawn("dout"), dlse = drawn("dlse");
  const auto bias = softcap_as_bias(p, q, k, drawn("bias"));
  Problem uncapped = p;
  uncapped.softcap = 0;
  uncapped.bias = ScoreBias::kDense;
  const auto values = attention_values<double>(uncapped, {q, k, v, bias, dout, dlse, sink});
  Alternative result = changed(answer, {"dq", "dk"}, [](double value) { return value; });
  result[0].want = values.dq;
  result[1].want = values.dk;
  return result;
}

bool has_inexact_scale(const Problem& p) {
  return round_to(p.dtype, effective_scale(p)) != effective_scale(p);
}

Alternative with_rounded_scale(const Problem& p, const Contract&, const Expected& answer) {
  const double scale = effective_scale(p);
  const double factor = round_to(p.dtype, scale) / scale;
  return changed(answer, {"dq", "dk"}, [=](double value) { return factor * value; });
}

// Weights that are all alike are rounded alike, which no cutting off can be told from.
bool has_distinct_weights(const Problem& p) {
  const bool is_flat = p.softcap > 0 && p.softcap < 1;
  return storage_bytes(p.dtype) == 2 && p.dropout == 0 && !is_flat;
}

Alternative with_cut_probabilities(const Contract& contract, const Expected& answer,
                                   std::string_view name) {
  const Rounding rounding =
      narrowing(contract.precision.elementwise, contract.precision.probability);
  const double factor = 1 - kMeanCut * rounding.u;
  return changed(answer, {name}, [=](double value) { return factor * value; });
}

bool is_gelu(const Problem& p) {
  return p.activation == Activation::kGelu || p.activation == Activation::kGeluTanh;
}

Problem with_gelu_swapped(const Problem& p) {
  Problem other = p;
  const bool exact = p.activation == Activation::kGelu;
  other.activation = exact ? Activation::kGeluTanh : Activation::kGelu;
  return other;
}

Alternative with_other_slope(const Problem& p, const Contract& contract, const Expected&) {
  return of_other(with_gelu_swapped(p), contract, {"dx", "dw1", "db1", "dwg", "dbg"});
}

Alternative with_other_gelu(const Problem& p, const Contract& contract, const Expected&) {
  return of_other(with_gelu_swapped(p), contract, {"y", "dw2", "dx", "dw1", "db1", "dwg", "dbg"});
}

Alternative without_epsilon(const Problem& p, const Contract& contract, const Expected&) {
  Problem other = p;
  other.epsilon = 0;
  return of_other(other, contract, {"y", "dx", "dgamma", "dw1", "dw2"});
}

}  // namespace

std::span<const Hypothesis> attention_hypotheses() {
  static constexpr std::array<Hypothesis, 4> kAll{{
      {"the derivative of the softcap is left out", has_softcap, without_softcap_slope},
      {"the scale of dq and dk is rounded to the type of the tensors", has_inexact_scale,
       with_rounded_scale},
      {"the forward pass cuts P off instead of rounding it", has_distinct_weights,
       [](const Problem&, const Contract& contract, const Expected& answer) {
         return with_cut_probabilities(contract, answer, "out");
       }},
      {"the backward pass cuts P off instead of rounding it", has_distinct_weights,
       [](const Problem&, const Contract& contract, const Expected& answer) {
         return with_cut_probabilities(contract, answer, "dv");
       }},
  }};
  return kAll;
}

std::span<const Hypothesis> mlp_hypotheses() {
  static constexpr std::array<Hypothesis, 2> kAll{{
      {"the backward pass uses the derivative of the other gelu", is_gelu, with_other_slope},
      {"the other gelu is used", is_gelu, with_other_gelu},
  }};
  return kAll;
}

std::span<const Hypothesis> norm_mlp_hypotheses() {
  static constexpr std::array<Hypothesis, 1> kAll{{
      {"epsilon is left out", [](const Problem&) { return true; }, without_epsilon},
  }};
  return kAll;
}

}  // namespace shardproof
