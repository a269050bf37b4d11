#include "reference/cross_entropy.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numeric>

#include "harness/model/edit.h"
#include "harness/model/element.h"

namespace shardproof {
namespace {

constexpr std::array<std::string_view, 10> kKeys{
    "batch", "tokens", "vocab", "padding", "smoothing", "ignored", "dtype", "data", "seed", "edit"};

std::vector<TensorSpec> tensors(const Problem& p) {
  const DType statistics = accumulator_of(p.dtype);
  const Shape rows{p.batch, p.tokens};
  const Shape logits{p.batch, p.tokens, columns_of(p)};
  std::vector<TensorSpec> specs;
  const auto add = [&](std::string_view name, TensorKind kind, Role role, DType dtype,
                       const Shape& shape, int token_dimension) {
    TensorSpec spec;
    spec.name = name;
    spec.kind = kind;
    spec.role = role;
    spec.dtype = dtype;
    spec.shape = shape;
    spec.token_dimension = token_dimension;
    specs.push_back(spec);
  };
  add("logits", TensorKind::kInput, Role::kActivation, p.dtype, logits, 1);
  add("ids", TensorKind::kInput, Role::kWord, DType::kF32, rows, 1);
  add("dloss", TensorKind::kUpstream, Role::kUpstream, statistics, rows, 1);
  add("dmean", TensorKind::kUpstream, Role::kUpstream, statistics, {1}, -1);
  add("loss", TensorKind::kOutput, Role::kActivation, statistics, rows, 1);
  add("lse", TensorKind::kOutput, Role::kActivation, statistics, rows, 1);
  add("mean", TensorKind::kOutput, Role::kActivation, statistics, {1}, -1);
  add("dlogits", TensorKind::kGradient, Role::kActivation, p.dtype, logits, 1);
  return specs;
}

void repair(Problem& problem) {
  for (Index* extent : {&problem.batch, &problem.tokens, &problem.padding}) {
    *extent = std::max<Index>(*extent, 0);
  }
  problem.vocab = std::max<Index>(problem.vocab, 1);
  problem.smoothing = std::clamp(problem.smoothing, 0.0, 1.0);
  problem.ignored = std::clamp(problem.ignored, 0.0, 1.0);
  repair_edit(problem, tensors(problem));
}

std::string broken_rule(const Problem& problem) {
  struct Least {
    std::string_view name;
    Index value;
    Index least;
  };
  for (const auto& [name, value, least] : {Least{"batch", problem.batch, 0},
                                           {"tokens", problem.tokens, 0},
                                           {"vocab", problem.vocab, 1},
                                           {"padding", problem.padding, 0}}) {
    if (value < least) return fmt::format("{} is {}; allowed: {} and more", name, value, least);
  }
  const std::array<std::pair<std::string_view, double>, 2> shares{
      {{"smoothing", problem.smoothing}, {"ignored", problem.ignored}}};
  for (const auto& [name, value] : shares) {
    if (!(value >= 0 && value <= 1)) return fmt::format("{} is {}; allowed: 0 to 1", name, value);
  }
  return broken_edit(problem, tensors(problem));
}

double work(const Problem& problem) {
  constexpr double kPerLogit = 16;  // two exponentials, mostly
  return kPerLogit * static_cast<double>(problem.batch * problem.tokens * columns_of(problem));
}

// One evaluation in `Real`.
template <class Real>
class CrossEntropy {
 public:
  CrossEntropy(const Problem& problem, const Contract& contract, Effort effort)
      : problem_(problem),
        effort_(effort),
        rule_(contract.precision, effort != Effort::kValues),
        bound_(problem, contract),
        specs_(tensors(problem)),
        logits_(whole_tensor(problem, specs_[0])),
        labels_(labels_of(problem, whole_tensor(problem, specs_[1]))),
        dloss_(whole_tensor(problem, specs_[2])),
        dmean_(whole_tensor(problem, specs_[3])[0]),
        smoothing_(static_cast<Real>(effective_smoothing(problem))) {}

  Expected evaluate() {
    for (std::size_t row = 0; row < labels_.size(); ++row) forward(row);
    const Real sum = std::accumulate(losses_.begin(), losses_.end(), Real{0});
    for (const Index label : labels_) count_ += label >= 0 ? 1 : 0;
    mean_ = {count_ > 0 ? sum / count_ : 0};
    if (rule_.with_errors) mean_bound_ = {bound_.mean(labelled_losses_, labelled_bounds_)};
    gradients_.resize(logits_.size());
    gradient_bounds_.resize(rule_.with_errors ? logits_.size() : 0);
    for (std::size_t row = 0; row < labels_.size(); ++row) backward(row);
    Expected expected;
    const auto add = [&](std::size_t spec, const std::vector<Real>& values,
                         const std::vector<Bound>& bounds) {
      expected.tensors.push_back(
          output_tensor(specs_[spec], values, bounds, effort_, false, rule_));
    };
    add(4, losses_, loss_bounds_);
    add(5, lse_, lse_bounds_);
    add(6, mean_, mean_bound_);
    add(7, gradients_, gradient_bounds_);
    return expected;
  }

 private:
  Real logit(std::size_t row, Index word) const {
    return static_cast<Real>(logits_[at(row, word)]);
  }

  std::size_t at(std::size_t row, Index word) const {
    return row * static_cast<std::size_t>(columns_of(problem_)) + static_cast<std::size_t>(word);
  }

  // Written without differences of large numbers: every term of the loss is positive.
  void forward(std::size_t row) {
    const Index words = problem_.vocab;
    const Index label = labels_[row];
    Real maximum = logit(row, 0);
    Real sum = 0;
    Real normaliser = 0;
    for (Index word = 0; word < words; ++word) maximum = std::max(maximum, logit(row, word));
    for (Index word = 0; word < words; ++word) {
      sum += logit(row, word);
      normaliser += std::exp(logit(row, word) - maximum);
    }
    const Real mean = sum / static_cast<Real>(words);
    const Real log = std::log(normaliser);
    const Real lse = maximum + log;
    const Real loss = label < 0 ? Real{0}
                                : log + (1 - smoothing_) * (maximum - logit(row, label)) +
                                      smoothing_ * (maximum - mean);
    lse_.push_back(lse);
    losses_.push_back(loss);
    maxima_.push_back(maximum);
    normalisers_.push_back(normaliser);
    if (!rule_.with_errors) return;
    rows_.push_back({std::span(logits_).subspan(at(row, 0), static_cast<std::size_t>(words)), label,
                     static_cast<double>(maximum), static_cast<double>(normaliser),
                     static_cast<double>(lse), static_cast<double>(mean),
                     static_cast<double>(loss)});
    lse_bounds_.push_back(bound_.lse(rows_.back()));
    loss_bounds_.push_back(bound_.loss(rows_.back(), lse_bounds_.back()));
    if (label < 0) return;
    labelled_losses_.push_back(static_cast<double>(loss));
    labelled_bounds_.push_back(loss_bounds_.back());
  }

  void backward(std::size_t row) {
    const Index label = labels_[row];
    if (label < 0) return;
    const Real upstream = static_cast<Real>(dloss_[row]) + static_cast<Real>(dmean_) / count_;
    const Real share = smoothing_ / static_cast<Real>(problem_.vocab);
    for (Index word = 0; word < problem_.vocab; ++word) {
      const Real p = std::exp(logit(row, word) - maxima_[row]) / normalisers_[row];
      const Real own = word == label ? 1 - smoothing_ : Real{0};
      gradients_[at(row, word)] = (p - own - share) * upstream;
      if (!rule_.with_errors) continue;
      gradient_bounds_[at(row, word)] = bound_.gradient(
          rows_[row], lse_bounds_[row], word, dloss_[row], dmean_, static_cast<double>(count_));
    }
  }

  const Problem& problem_;
  Effort effort_;
  ProductRule rule_;
  CrossEntropyBound bound_;
  std::vector<TensorSpec> specs_;
  std::vector<double> logits_;  // [batch, tokens, columns]
  std::vector<Index> labels_;   // [batch, tokens]
  std::vector<double> dloss_;
  double dmean_;
  Real smoothing_;
  Real count_ = 0;  // of tokens that have a label
  std::vector<Real> lse_, losses_, maxima_, normalisers_, mean_, gradients_;
  std::vector<WordRow> rows_;
  std::vector<Bound> lse_bounds_, loss_bounds_, mean_bound_, gradient_bounds_;
  std::vector<double> labelled_losses_;
  std::vector<Bound> labelled_bounds_;
};

Expected evaluate(const Problem& problem, const Contract& contract, Effort effort) {
  if (problem.dtype == DType::kF64) {
    return CrossEntropy<long double>(problem, contract, effort).evaluate();
  }
  return CrossEntropy<double>(problem, contract, effort).evaluate();
}

}  // namespace

std::vector<Index> labels_of(const Problem& problem, const std::vector<double>& ids) {
  std::vector<Index> labels(ids.size(), -1);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    const bool ends = (static_cast<Index>(i) + 1) % problem.tokens == 0;
    if (!ends) labels[i] = static_cast<Index>(ids[i + 1]);
  }
  return labels;
}

const Operator& cross_entropy_operator() {
  static const Operator op{
      "cross_entropy", "losses of predicting the next word, their mean and the gradient",
      kKeys,           tensors,
      repair,          broken_rule,
      evaluate,        work};
  return op;
}

}  // namespace shardproof
