#include <algorithm>

#include "harness/check/compare.h"
#include "properties/properties.h"

namespace shardproof {
namespace {

// Below this many multiply-adds T1 costs next to nothing and sharpens T2 in sums of few terms.
constexpr double kSmallWork = 2e6;

// Data whose roundings are far from independent: T2 is valid but T1 says more.
bool is_structured(DataRecipe data) {
  return data == DataRecipe::kConstantRows || data == DataRecipe::kInteger ||
         data == DataRecipe::kCoordinates || data == DataRecipe::kTiny;
}

Effort first_effort(const Problem& problem) {
  const bool small = problem.op->work(problem) <= kSmallWork;
  return small || is_structured(problem.data) ? Effort::kAll : Effort::kLikely;
}

bool left_unwritten(const Outcome& outcome, std::string_view tensor) {
  return std::any_of(outcome.findings.begin(), outcome.findings.end(), [&](const Finding& each) {
    return each.breach == Breach::kUnwritten && each.tensor == tensor;
  });
}

// The verdict on the first tensor that is wrong.
Verdict first_wrong(const Outcome& outcome, const Expected& expected) {
  for (const ExpectedTensor& want : expected.tensors) {
    const Gathered* got = outcome.find(want.spec.name);
    if (got == nullptr) {
      Verdict missing = Verdict::falsified(symptom::kShape, "no such tensor was returned");
      missing.tensor = want.spec.name;
      return missing;
    }
    Comparison comparison = compare(*got, want);
    if (comparison.symptom.empty()) continue;
    if (comparison.symptom == symptom::kNotANumber && left_unwritten(outcome, want.spec.name)) {
      comparison.symptom = symptom::kUnwritten;
    }
    return verdict_of(comparison, want.spec.shape);
  }
  return Verdict::holds();
}

Verdict vacuity(const Expected& expected) {
  bool nothing = true;
  for (const ExpectedTensor& want : expected.tensors) {
    if (want.want.empty()) continue;
    nothing = false;
    if (has_power(want)) return Verdict::holds();
  }
  return Verdict::vacuous(nothing ? "every output is empty"
                                  : "the bounds are wider than any structural fault");
}

Verdict judge(const Evidence& evidence) {
  const Run& run = evidence.base;
  const Effort effort = first_effort(run.value.problem);
  Verdict verdict = first_wrong(run.outcome, run.expected(effort));
  if (is_failure(verdict.kind) && effort != Effort::kAll) {
    verdict = first_wrong(run.outcome, run.expected(Effort::kAll));
  }
  if (is_failure(verdict.kind)) return verdict;
  return vacuity(run.expected(effort));
}

}  // namespace

const Property& matches_reference_property() {
  static const Property property{
      .name = "matches_reference",
      .family = Family::kOracle,
      .claim = "Every output and every gradient is within its bound of the float64 reference.",
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
