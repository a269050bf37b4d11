// Oracle without the reference's values: what flows in at the top comes out at the bottom. A row of
// P sums to 1, so the gradients of all values sum to those of all outputs; a row of dS sums to the
// gradient of its lse; a bias that is added to every token receives every token's gradient; the
// gradients of a token's logits under cross entropy sum to 0.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "harness/model/element.h"
#include "harness/model/require.h"
#include "properties/properties.h"
#include "properties/tokens.h"

namespace shardproof {
namespace {

struct Total {
  double in = 0;     // from the upstream gradients
  double out = 0;    // from what the subject returned
  double bound = 0;  // of the sum: the elements' bounds added up, for their errors may be alike,
                     // and what summing here may add

  void count(double& side, double term, double error) {
    side += term;
    bound += error + 0x1p-44 * std::fabs(term);
  }
};

// Which sum an element of a tensor belongs to; -1: to none.
using Belongs = std::function<Index(const std::array<Index, Shape::kMaximumRank>& at)>;

struct Law {
  std::string_view upstream;  // empty: nothing flows in
  std::string_view gradient;
  Belongs of_upstream;
  Belongs of_gradient;
};

// sum_j dv[b, j, g, c] = sum over rows i with keys and heads h of g of dout[b, i, h, c].
Law values_law(const Problem& p) {
  return {"dout", "dv",
          [&p](const auto& at) {
            if (!sees_a_key(p, at[0], at[1])) return Index{-1};
            const Index group = at[2] * p.kv_heads / p.heads;
            return (at[0] * p.kv_heads + group) * p.dim_v + at[3];
          },
          [&p](const auto& at) { return (at[0] * p.kv_heads + at[2]) * p.dim_v + at[3]; }};
}

// sum_j dbias[h, i, j] = sum_b dlse[b, h, i], rows without keys left out.
Law scores_law(const Problem& p) {
  return {"dlse", "dbias",
          [&p](const auto& at) {
            return sees_a_key(p, at[0], at[2]) ? at[1] * p.q + at[2] : Index{-1};
          },
          [&p](const auto& at) { return at[0] * p.q + at[1]; }};
}

// db[o] = sum over tokens of dy[..., o].
Law bias_law(std::string_view bias, int last) {
  return {"dy", bias, [last](const auto& at) { return at[static_cast<std::size_t>(last)]; },
          [](const auto& at) { return at[0]; }};
}

// sum over words of dlogits[b, t, word] = 0: probabilities and targets both sum to 1.
Law logits_law(const Problem& p) {
  return {"", "dlogits", {}, [&p](const auto& at) { return at[0] * p.tokens + at[1]; }};
}

std::vector<Law> laws(const Problem& problem) {
  const std::string_view op = problem.op->name;
  if (op == "mlp") return {bias_law("db2", 1)};
  if (op == "training_step" && problem.max_norm == 0) return {bias_law("db2", 1)};
  if (op == "cross_entropy") return {logits_law(problem)};
  if (op == "attention_layer") return {bias_law("dbo", 2)};
  // A sink takes its share of every row, and so does dropout of the rows of P.
  if (op != "attention" || problem.sink) return {};
  std::vector<Law> result;
  if (problem.dropout == 0) result.push_back(values_law(problem));
  if (problem.bias == ScoreBias::kDense) result.push_back(scores_law(problem));
  return result;
}

const TensorSpec& spec_of(const std::vector<TensorSpec>& specs, std::string_view name) {
  const auto found = std::find_if(specs.begin(), specs.end(),
                                  [&](const TensorSpec& spec) { return spec.name == name; });
  require(found != specs.end(), "a conservation law names tensors of its operator");
  return *found;
}

void count_upstream(const Problem& problem, const Law& law, std::map<Index, Total>& totals) {
  if (law.upstream.empty()) return;
  const auto specs = problem.op->tensors(problem);
  const TensorSpec& upstream = spec_of(specs, law.upstream);
  const std::vector<double> in = whole_tensor(problem, upstream);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const Index to = law.of_upstream(upstream.shape.coordinates(static_cast<Index>(i)));
    if (to >= 0) totals[to].count(totals[to].in, in[i], 0);
  }
}

std::map<Index, Total> totals(const Run& run, const Law& law) {
  std::map<Index, Total> result;
  count_upstream(run.value.problem, law, result);
  const Gathered* got = run.outcome.find(law.gradient);
  const ExpectedTensor* want = run.expected(Effort::kLikely).find(law.gradient);
  require(got != nullptr && want != nullptr, "a run that completed returns every gradient");
  for (std::size_t i = 0; i < got->got.size(); ++i) {
    Total& total = result[law.of_gradient(got->spec.shape.coordinates(static_cast<Index>(i)))];
    total.count(total.out, got->got[i], want->likely[i]);
  }
  return result;
}

Verdict broken(const Law& law, const Total& total) {
  Verdict verdict = Verdict::falsified("not conserved", "");
  verdict.tensor = law.gradient;
  verdict.got = total.out;
  verdict.want = total.in;
  verdict.bound = total.bound;
  verdict.message = fmt::format(
      "{} sums to {:.9g}, but {} to {:.9g}; +- {:.3g} is allowed", law.gradient, total.out,
      law.upstream.empty() ? "what flows in" : law.upstream, total.in, total.bound);
  return verdict;
}

std::string inapplicable(const Case& value, const Subject&) {
  return laws(value.problem).empty() ? "the operator has no conservation law" : "";
}

Verdict judge(const Evidence& evidence) {
  for (const Law& law : laws(evidence.base.value.problem)) {
    for (const auto& [where, total] : totals(evidence.base, law)) {
      const bool is_vague = total.bound == std::numeric_limits<double>::infinity();
      if (!is_vague && !(std::fabs(total.out - total.in) <= total.bound)) return broken(law, total);
    }
  }
  return Verdict::holds();
}

}  // namespace

const Property& conservation_property() {
  static const Property property{
      .name = "conservation",
      .family = Family::kOracle,
      .claim = "Gradients of values, scores and biases add up to the upstream gradients.",
      .inapplicable = inapplicable,
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
