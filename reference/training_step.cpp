#include "reference/training_step.h"

#include <fmt/format.h>

#include <array>

#include "harness/model/edit.h"
#include "reference/evaluation.h"
#include "reference/mlp.h"

namespace shardproof {
namespace {

constexpr std::array<std::string_view, 12> kKeys{
    "tokens",        "features", "hidden", "outputs", "activation", "tied",
    "micro_batches", "max_norm", "dtype",  "data",    "seed",       "edit"};

std::vector<TensorSpec> tensors(const Problem& p) {
  const Shape first{p.features, p.hidden};
  const Shape second{p.hidden, p.outputs};
  std::vector<TensorSpec> specs;
  const auto add = [&](std::string_view name, TensorKind kind, Role role, const Shape& shape) {
    const bool has_tokens = role == Role::kActivation || role == Role::kUpstream;
    specs.push_back({name, kind, role, p.dtype, shape, has_tokens ? 0 : -1});
  };
  add("x", TensorKind::kInput, Role::kActivation, {p.tokens, p.features});
  add("w1", TensorKind::kInput, Role::kWeight, first);
  if (!p.tied) add("w2", TensorKind::kInput, Role::kWeight, second);
  add("b2", TensorKind::kInput, Role::kBias, {p.outputs});
  add("dy", TensorKind::kUpstream, Role::kUpstream, {p.tokens, p.outputs});
  add("y", TensorKind::kOutput, Role::kActivation, {p.tokens, p.outputs});
  add("dx", TensorKind::kGradient, Role::kActivation, {p.tokens, p.features});
  add("dw1", TensorKind::kGradient, Role::kWeight, first);
  if (!p.tied) add("dw2", TensorKind::kGradient, Role::kWeight, second);
  add("db2", TensorKind::kGradient, Role::kBias, {p.outputs});
  add("norm", TensorKind::kGradient, Role::kBias, {1});
  specs.back().dtype = accumulator_of(p.dtype);
  return specs;
}

void repair(Problem& problem) {
  for (Index* extent : {&problem.tokens, &problem.features, &problem.hidden, &problem.outputs}) {
    *extent = std::max<Index>(*extent, 0);
  }
  if (problem.tied) problem.outputs = problem.features;
  problem.micro_batches = std::max<Index>(problem.micro_batches, 1);
  problem.max_norm = std::max(problem.max_norm, 0.0);
  repair_edit(problem, tensors(problem));
}

std::string broken_rule(const Problem& problem) {
  struct Least {
    std::string_view name;
    Index value;
    Index least;
  };
  for (const auto& [name, value, least] : {Least{"tokens", problem.tokens, 0},
                                           {"features", problem.features, 0},
                                           {"hidden", problem.hidden, 0},
                                           {"outputs", problem.outputs, 0},
                                           {"micro_batches", problem.micro_batches, 1}}) {
    if (value < least) return fmt::format("{} is {}; allowed: {} and more", name, value, least);
  }
  if (problem.tied && problem.outputs != problem.features) {
    return fmt::format("outputs is {}; allowed with tied=yes: the number of features, {}",
                       problem.outputs, problem.features);
  }
  if (!(problem.max_norm >= 0)) {
    return fmt::format("max_norm is {}; allowed: 0 and more", problem.max_norm);
  }
  return broken_edit(problem, tensors(problem));
}

double work(const Problem& problem) {
  const auto width = static_cast<double>(problem.features + problem.outputs);
  return 3 * static_cast<double>(problem.tokens) * static_cast<double>(problem.hidden) * width;
}

// One evaluation in `Real`.
template <class Real>
class TrainingStep {
 public:
  // Without features or hidden units all tokens are alike, and so are their errors: no RMS test.
  TrainingStep(const Problem& problem, const Contract& contract, Effort effort)
      : problem_(problem),
        units_(contract.partitions.summed),
        tokens_(contract.partitions.queries),
        run_(problem, contract, effort, problem.features > 0 && problem.hidden > 0) {}

  Expected evaluate() {
    x_ = run_.matrix("x", problem_.tokens, problem_.features);
    w1_ = run_.matrix("w1", problem_.features, problem_.hidden);
    w2_ = problem_.tied ? transposed(w1_) : run_.matrix("w2", problem_.hidden, problem_.outputs);
    dy_ = run_.matrix("dy", problem_.tokens, problem_.outputs);
    pass_hidden();
    const double equal_hidden =
        run_.with_errors() ? std::max(equal_columns(w1_), equal_rows(w2_)) : 1;
    run_.add_output("y", multiply(a_, w2_, run_.rule(), units_), equal_hidden, run_.values("b2"));
    run_.add_output("dx", multiply(dz_, transposed(w1_), run_.rule(), units_), equal_hidden);
    differentiate();
    step();
    return run_.take();
  }

 private:
  // Everything that is computed element by element between the two layers.
  void pass_hidden() {
    const ProductRule& rule = run_.rule();
    const Product<Real> z = multiply(x_, w1_, rule);
    const Product<Real> da = multiply(dy_, transposed(w2_), rule);
    const double equal_features =
        rule.with_errors ? std::min(equal_columns(x_), equal_rows(w1_)) : 1;
    const double equal_outputs =
        rule.with_errors ? std::min(equal_columns(dy_), equal_columns(w2_)) : 1;
    const std::size_t size = z.values.size();
    std::vector<Real> a(size), dz(size);
    std::vector<Carried> a_errors(rule.with_errors ? size : 0), dz_errors(a_errors.size());
    for (std::size_t i = 0; i < size; ++i) {
      const Slopes<Real> at = slopes(problem_.activation, z.values[i]);
      a[i] = at.value;
      dz[i] = da.values[i] * at.first;
      if (!rule.with_errors) continue;
      const HiddenInputs inputs{static_cast<double>(z.values[i]),
                                1,
                                static_cast<double>(da.values[i]),
                                run_.stored(z, i, equal_features, false, z.values[i]),
                                {},
                                run_.stored(da, i, equal_outputs, false, da.values[i])};
      const HiddenErrors errors = hidden_errors(problem_.activation, false, inputs, rule);
      a_errors[i] = errors.a;
      dz_errors[i] = errors.dz;
    }
    const double u = rule.units.middle.u;
    a_ =
        middle_factor(std::move(a), std::move(a_errors), problem_.tokens, problem_.hidden, u, rule);
    dz_ = middle_factor(std::move(dz), std::move(dz_errors), problem_.tokens, problem_.hidden,
                        2 * u, rule);
  }

  // A tied weight's gradient is one sum with two terms a token, whose errors come from one z.
  void differentiate() {
    const ProductRule& rule = run_.rule();
    if (rule.with_errors) equal_tokens_ = std::max(equal_rows(x_), equal_rows(dy_));
    if (problem_.tied) {
      equal_tokens_ *= 2;
      Partition uses = tokens_;
      for (std::vector<Index>& part : uses) {
        const std::size_t count = part.size();
        for (std::size_t i = 0; i < count; ++i) part.push_back(part[i] + problem_.tokens);
      }
      const Factor<Real> inputs = beside(transposed(x_), transposed(dy_));
      const Factor<Real> hidden = transposed(beside(transposed(dz_), transposed(a_)));
      add_gradient("dw1", multiply(inputs, hidden, rule, uses));
    } else {
      add_gradient("dw1", multiply(transposed(x_), dz_, rule, tokens_));
      add_gradient("dw2", multiply(transposed(a_), dy_, rule, tokens_));
    }
    add_gradient("db2", column_sums(dy_, rule, tokens_));
  }

  void add_gradient(std::string_view name, const Product<Real>& product) {
    names_.push_back(name);
    gradients_.push_back(
        {product.values, run_.bounds(product, product.values, equal_tokens_, false)});
  }

  // The norm and the clipped gradients.
  void step() {
    const ProductRule& rule = run_.rule();
    const double max_norm = effective_max_norm(problem_);
    const Real norm = norm_of(gradients_);
    Uncertain uncertain;
    Uncertain factor{1, 0, 0};
    if (rule.with_errors) {
      uncertain = norm_error(gradients_, norm, static_cast<Index>(units_.size()), rule);
      if (max_norm > 0) factor = clip_factor(uncertain, max_norm, rule);
    }
    const bool clips = max_norm > 0 && norm > static_cast<Real>(max_norm);
    const Real scale = clips ? static_cast<Real>(max_norm) / norm : Real{1};
    for (std::size_t which = 0; which < gradients_.size(); ++which) {
      auto& [values, bounds] = gradients_[which];
      for (std::size_t i = 0; i < bounds.size(); ++i) {
        bounds[i] = clipped_bound(static_cast<double>(values[i]), bounds[i], factor, rule);
      }
      for (Real& value : values) value *= scale;
      run_.add_output(names_[which], values, bounds, equal_tokens_ == 1 && max_norm == 0);
    }
    std::vector<Bound> bound;
    if (rule.with_errors) bound.push_back(linear_bound(uncertain));
    run_.add_output("norm", {norm}, bound, false);
  }

  const Problem& problem_;
  Partition units_;
  Partition tokens_;
  Evaluation<Real> run_;
  Factor<Real> x_, w1_, w2_, dy_, a_, dz_;
  double equal_tokens_ = 1;
  std::vector<std::string_view> names_;
  std::vector<Gradient<Real>> gradients_;
};

Expected evaluate(const Problem& problem, const Contract& contract, Effort effort) {
  if (problem.dtype == DType::kF64) {
    return TrainingStep<long double>(problem, contract, effort).evaluate();
  }
  return TrainingStep<double>(problem, contract, effort).evaluate();
}

}  // namespace

const Operator& training_step_operator() {
  static const Operator op{
      "training_step", "gradients of a two-layer network, their norm, and clipping to it",
      kKeys,           tensors,
      repair,          broken_rule,
      evaluate,        work};
  return op;
}

}  // namespace shardproof
