#include "reference/mlp.h"

#include <fmt/format.h>

#include <array>

#include "harness/model/edit.h"
#include "reference/evaluation.h"
#include "reference/hypotheses.h"

namespace shardproof {
namespace {

constexpr std::array<std::string_view, 10> kKeys{"tokens",     "features", "hidden", "outputs",
                                                 "activation", "gated",    "dtype",  "data",
                                                 "seed",       "edit"};

std::vector<TensorSpec> tensors(const Problem& p) {
  std::vector<TensorSpec> specs;
  const auto add = [&](std::string_view name, TensorKind kind, Role role, Shape shape, int power) {
    specs.push_back({name, kind, role, p.dtype, shape,
                     role == Role::kActivation || role == Role::kUpstream ? 0 : -1, power});
  };
  // Every input and its gradient.
  struct Input {
    std::string_view name, gradient;
    Role role;
    Shape shape;
    int value_power = 0;
  };
  std::vector<Input> inputs{{"x", "dx", Role::kActivation, {p.tokens, p.features}},
                            {"w1", "dw1", Role::kWeight, {p.features, p.hidden}},
                            {"b1", "db1", Role::kBias, {p.hidden}}};
  if (p.gated) {
    inputs.push_back({"wg", "dwg", Role::kWeight, {p.features, p.hidden}});
    inputs.push_back({"bg", "dbg", Role::kBias, {p.hidden}});
  }
  inputs.push_back({"w2", "dw2", Role::kWeight, {p.hidden, p.outputs}, 1});
  inputs.push_back({"b2", "db2", Role::kBias, {p.outputs}, 1});
  for (const Input& each : inputs) {
    add(each.name, TensorKind::kInput, each.role, each.shape, each.value_power);
  }
  add("dy", TensorKind::kUpstream, Role::kUpstream, {p.tokens, p.outputs}, 0);
  add("y", TensorKind::kOutput, Role::kActivation, {p.tokens, p.outputs}, 1);
  for (const Input& each : inputs) {
    add(each.gradient, TensorKind::kGradient, each.role, each.shape, 1 - each.value_power);
  }
  return specs;
}

void repair(Problem& problem) {
  for (Index* extent : {&problem.tokens, &problem.features, &problem.hidden, &problem.outputs}) {
    *extent = std::max<Index>(*extent, 0);
  }
  repair_edit(problem, tensors(problem));
}

std::string broken_rule(const Problem& problem) {
  const std::array<std::pair<std::string_view, Index>, 4> extents{{{"tokens", problem.tokens},
                                                                   {"features", problem.features},
                                                                   {"hidden", problem.hidden},
                                                                   {"outputs", problem.outputs}}};
  for (const auto& [name, value] : extents) {
    if (value < 0) return fmt::format("{} is {}; allowed: 0 and more", name, value);
  }
  return broken_edit(problem, tensors(problem));
}

double work(const Problem& problem) {
  const double up = static_cast<double>(problem.features) * (problem.gated ? 2 : 1);
  const double width = up + static_cast<double>(problem.outputs);
  return 3 * static_cast<double>(problem.tokens) * static_cast<double>(problem.hidden) * width;
}

// One evaluation in `Real`.
template <class Real>
class Mlp {
 public:
  // Without features or hidden units all tokens are alike, and so are their errors: no RMS test.
  Mlp(const Problem& problem, const Contract& contract, Effort effort)
      : problem_(problem),
        parts_(contract.partitions.summed),
        run_(problem, contract, effort, problem.features > 0 && problem.hidden > 0) {}

  Expected evaluate() {
    const Index tokens = problem_.tokens;
    const Index hidden = problem_.hidden;
    const bool gated = problem_.gated;
    const ProductRule& rule = run_.rule();
    x_ = run_.matrix("x", tokens, problem_.features);
    w1_ = run_.matrix("w1", problem_.features, hidden);
    w2_ = run_.matrix("w2", hidden, problem_.outputs);
    dy_ = run_.matrix("dy", tokens, problem_.outputs);
    if (gated) wg_ = run_.matrix("wg", problem_.features, hidden);
    if (rule.with_errors) count_equal_rows();
    pass_hidden();

    run_.add_output("y", multiply(a_, w2_, rule, parts_), equal_hidden_, run_.values("b2"));
    const Factor<Real> branches = gated ? beside(dz_, dup_) : dz_;
    const Factor<Real> weights = gated ? beside(w1_, wg_) : w1_;
    run_.add_output("dx", multiply(branches, transposed(weights), rule, parts_of_branches()),
                    equal_hidden_);
    const Factor<Real> x_across = transposed(x_);
    run_.add_output("dw1", multiply(x_across, dz_, rule), equal_tokens_);
    run_.add_output("db1", column_sums(dz_, rule), equal_tokens_);
    if (gated) {
      run_.add_output("dwg", multiply(x_across, dup_, rule), equal_tokens_);
      run_.add_output("dbg", column_sums(dup_, rule), equal_tokens_);
    }
    run_.add_output("dw2", multiply(transposed(a_), dy_, rule), equal_tokens_);
    run_.add_output("db2", column_sums(dy_, rule), equal_tokens_);
    return run_.take();
  }

 private:
  // Equal rows round equally (see Bound::add): how many terms of each sum are alike.
  void count_equal_rows() {
    equal_tokens_ = std::max(equal_rows(x_), equal_rows(dy_));
    equal_hidden_ = std::max(equal_columns(w1_), equal_rows(w2_));
    if (problem_.gated) equal_hidden_ = std::max(equal_hidden_, equal_columns(wg_));
    const double x_features = equal_columns(x_);
    equal_features_ = std::min(x_features, equal_rows(w1_));
    if (problem_.gated) equal_gate_features_ = std::min(x_features, equal_rows(wg_));
    equal_outputs_ = std::min(equal_columns(dy_), equal_columns(w2_));
  }

  // The hidden units of each part, in both branches of a gated layer.
  Partition parts_of_branches() const {
    Partition parts = parts_;
    for (std::vector<Index>& part : parts) {
      const std::size_t count = problem_.gated ? part.size() : 0;
      for (std::size_t i = 0; i < count; ++i) part.push_back(part[i] + problem_.hidden);
    }
    return parts;
  }

  // The two branches of the first layer and da = dy w2^T.
  struct Hidden {
    Product<Real> z, up, da;
    std::vector<double> b1, bg;
  };

  // One hidden unit of one token.
  HiddenInputs inputs_at(const Hidden& hidden, std::size_t i, Real z, Real up) const {
    HiddenInputs inputs{static_cast<double>(z),
                        static_cast<double>(up),
                        static_cast<double>(hidden.da.values[i]),
                        run_.stored(hidden.z, i, equal_features_, true, z),
                        {},
                        run_.stored(hidden.da, i, equal_outputs_, false, hidden.da.values[i])};
    if (problem_.gated) {
      inputs.up_error = run_.stored(hidden.up, i, equal_gate_features_, true, up);
    }
    return inputs;
  }

  // Everything that is computed element by element between the two layers.
  void pass_hidden() {
    const ProductRule& rule = run_.rule();
    const bool gated = problem_.gated;
    Hidden hidden{
        multiply(x_, w1_, rule), {}, multiply(dy_, transposed(w2_), rule), run_.values("b1"), {}};
    if (gated) {
      hidden.up = multiply(x_, wg_, rule);
      hidden.bg = run_.values("bg");
    }
    const std::size_t size = hidden.z.values.size();
    const std::size_t bounded = rule.with_errors ? size : 0;
    std::vector<Real> a(size), dz(size), dup(gated ? size : 0);
    std::vector<Carried> a_errors(bounded), dz_errors(bounded), dup_errors(gated ? bounded : 0);
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t unit = i % hidden.b1.size();
      const Real z = hidden.z.values[i] + static_cast<Real>(hidden.b1[unit]);
      const Real up = gated ? hidden.up.values[i] + static_cast<Real>(hidden.bg[unit]) : Real{1};
      const Slopes<Real> at = slopes(problem_.activation, z);
      a[i] = at.value * up;
      dz[i] = hidden.da.values[i] * at.first * up;
      if (gated) dup[i] = hidden.da.values[i] * at.value;
      if (bounded == 0) continue;
      const HiddenErrors errors =
          hidden_errors(problem_.activation, gated, inputs_at(hidden, i, z, up), rule);
      a_errors[i] = errors.a;
      dz_errors[i] = errors.dz;
      if (gated) dup_errors[i] = errors.dup;
    }
    const auto stored = [&](std::vector<Real>& values, std::vector<Carried>& errors,
                            double roundings) {
      return middle_factor(std::move(values), std::move(errors), problem_.tokens, problem_.hidden,
                           roundings * rule.units.middle.u, rule);
    };
    a_ = stored(a, a_errors, 1);
    dz_ = stored(dz, dz_errors, 2);
    if (gated) dup_ = stored(dup, dup_errors, 2);
  }

  const Problem& problem_;
  Partition parts_;
  Evaluation<Real> run_;
  Factor<Real> x_, w1_, wg_, w2_, dy_;
  Factor<Real> a_, dz_, dup_;
  double equal_tokens_ = 1;
  double equal_hidden_ = 1;
  double equal_features_ = 1;
  double equal_gate_features_ = 1;
  double equal_outputs_ = 1;
};

Expected evaluate(const Problem& problem, const Contract& contract, Effort effort) {
  if (problem.dtype == DType::kF64) return Mlp<long double>(problem, contract, effort).evaluate();
  return Mlp<double>(problem, contract, effort).evaluate();
}

}  // namespace

const Operator& mlp_operator() {
  static const Operator op{
      "mlp",           "two linear layers with an activation between them, optionally gated",
      kKeys,           tensors,
      repair,          broken_rule,
      evaluate,        work,
      mlp_hypotheses()};
  return op;
}

}  // namespace shardproof
