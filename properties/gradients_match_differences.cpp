// Oracle without the reference: the gradients that a subject returns against differences of its own
// outputs, on small float64 problems. All inputs move along one random direction d; with
// L = sum(upstream * output), dL/dh = sum(gradient * d).
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "harness/model/element.h"
#include "properties/edited.h"
#include "properties/properties.h"
#include "properties/tokens.h"

namespace shardproof {
namespace {

constexpr double kMostWork = 2e5;  // multiply-adds; larger cases teach nothing more
constexpr int kSteps = 3;          // h, 2h, 4h

// The longest step is at most this part of the root of a norm's epsilon: over less than that root
// the output of a row that hardly varies does not bend.
constexpr double kMostBend = 1.0 / 64;

std::string inapplicable(const Case& value, const Subject&) {
  const Problem& problem = value.problem;
  if (problem.dtype != DType::kF64) return "only in double precision are differences sharp";
  if (problem.data != DataRecipe::kNormal && problem.data != DataRecipe::kConstantRows) {
    return "only moderate data have differences without cancellation";
  }
  std::string why = why_not_edited(problem, Edit::kNudge);
  if (!why.empty()) return why;
  const bool bends = uses_key(problem, "activation") && problem.activation == Activation::kRelu;
  if (bends) return "relu has a kink";
  const bool has_epsilon = uses_key(problem, "epsilon");
  if (has_epsilon && kNudges[2 * (kSteps - 1)] > kMostBend * std::sqrt(problem.epsilon)) {
    return "with so small an epsilon the output may bend within a step";
  }
  if (problem.max_norm > 0) return "clipped gradients are no derivatives";
  return problem.op->work(problem) <= kMostWork ? "" : "the problem is large";
}

std::vector<Case> variants(const Case& value, const Subject&) {
  std::vector<Case> result;
  for (std::size_t i = 0; i < 2 * kSteps; ++i) {
    result.push_back(with_edit(value, Edit::kNudge, static_cast<Index>(i)));
  }
  return result;
}

// The spec of "d" + name.
const TensorSpec* partner(const std::vector<TensorSpec>& specs, std::string_view name) {
  for (const TensorSpec& spec : specs) {
    if (spec.name.substr(0, 1) == "d" && spec.name.substr(1) == name) return &spec;
  }
  return nullptr;
}

struct Sum {
  double value = 0;
  double error = 0;  // what the bounds and the summation itself allow

  void add(double factor, double term, double bound) {
    if (!std::isfinite(term)) return;
    value += factor * term;
    error += std::fabs(factor) * bound + 0x1p-50 * std::fabs(factor * term);
  }
};

// L of one run. Rows without keys (lse = -inf) have no gradient and are left out.
Sum loss(const Run& run, const Run& base) {
  Sum sum;
  const std::vector<TensorSpec> specs = base.value.problem.op->tensors(base.value.problem);
  for (const ExpectedTensor& want : base.expected(Effort::kLikely).tensors) {
    const TensorSpec* upstream = partner(specs, want.spec.name);
    const Gathered* got = run.outcome.find(want.spec.name);
    const bool counts = upstream && upstream->kind == TensorKind::kUpstream && got;
    if (!counts || want.spec.kind != TensorKind::kOutput) continue;
    const std::vector<double> factor = whole_tensor(base.value.problem, *upstream);
    for (std::size_t i = 0; i < factor.size(); ++i) sum.add(factor[i], got->got[i], want.likely[i]);
  }
  return sum;
}

// sum(gradient * d), d from the inputs of the problem moved by +h and by -h.
Sum slope(const Run& base, const Problem& up, const Problem& down) {
  Sum sum;
  const std::vector<TensorSpec> specs = up.op->tensors(up);
  for (const TensorSpec& spec : specs) {
    const TensorSpec* gradient = partner(specs, spec.name);
    if (spec.kind != TensorKind::kInput || gradient == nullptr) continue;
    const Gathered* got = base.outcome.find(gradient->name);
    if (got == nullptr) continue;
    const ExpectedTensor* want = base.expected(Effort::kLikely).find(gradient->name);
    const std::vector<double> high = whole_tensor(up, spec);
    const std::vector<double> low = whole_tensor(down, spec);
    for (std::size_t i = 0; i < high.size(); ++i) {
      sum.add((high[i] - low[i]) / (2 * kNudges[0]), got->got[i], want->likely[i]);
    }
  }
  return sum;
}

Verdict judge(const Evidence& evidence) {
  std::array<Sum, kSteps> difference;
  for (std::size_t i = 0; i < kSteps; ++i) {
    const double step = kNudges[2 * i];
    const Sum up = loss(*evidence.variants[2 * i], evidence.base);
    const Sum down = loss(*evidence.variants[2 * i + 1], evidence.base);
    difference[i] = {(up.value - down.value) / (2 * step), (up.error + down.error) / (2 * step)};
  }
  // Richardson's extrapolation takes the error's h^2 term out; what is left shrinks like h^4, so
  // that the finer of two is at least 15 times as good as their distance: the steps are far below
  // all that an output bends over, the root of epsilon under a norm and else about 1.
  const double fine = (4 * difference[0].value - difference[1].value) / 3;
  const double coarse = (4 * difference[1].value - difference[2].value) / 3;
  const double noise = (4 * difference[0].error + difference[1].error) / 3;
  const Sum want = slope(evidence.base, evidence.variants[0]->value.problem,
                         evidence.variants[1]->value.problem);
  const double bound = std::fabs(fine - coarse) + noise + want.error;
  if (std::fabs(want.value - fine) <= bound) return Verdict::holds();
  Verdict verdict = Verdict::falsified("gradients do not match differences", "");
  verdict.got = want.value;
  verdict.want = fine;
  verdict.bound = bound;
  verdict.message =
      fmt::format("the slope by gradients is {:.12g}, by differences {:.12g} +- {:.3g}", want.value,
                  fine, bound);
  return verdict;
}

}  // namespace

const Property& gradients_match_differences_property() {
  static const Property property{
      .name = "gradients_match_differences",
      .family = Family::kOracle,
      .claim = "Gradients are the derivatives of the subject's own outputs (float64).",
      .inapplicable = inapplicable,
      .variants = variants,
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
