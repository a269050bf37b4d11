#include "properties/oracle.h"

#include <algorithm>

#include "harness/check/compare.h"

namespace shardproof {
namespace {

// Below this many multiply-adds T1 costs next to nothing and sharpens T2 in sums of few terms.
constexpr double kSmallWork = 2e6;

// Data whose roundings are far from independent: T2 is valid but T1 says more.
bool is_structured(DataRecipe data) {
  return data == DataRecipe::kConstantRows || data == DataRecipe::kInteger ||
         data == DataRecipe::kCoordinates || data == DataRecipe::kTiny;
}

bool left_unwritten(const Outcome& outcome, std::string_view tensor) {
  return std::any_of(outcome.findings.begin(), outcome.findings.end(), [&](const Finding& each) {
    return each.breach == Breach::kUnwritten && each.tensor == tensor;
  });
}

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

}  // namespace

Effort oracle_effort(const Problem& problem) {
  const bool small = problem.op->work(problem) <= kSmallWork;
  return small || is_structured(problem.data) ? Effort::kAll : Effort::kLikely;
}

Verdict verdict_against_reference(const Run& run) {
  const Effort effort = oracle_effort(run.value.problem);
  Verdict verdict = first_wrong(run.outcome, run.expected(effort));
  if (is_failure(verdict.kind) && effort != Effort::kAll) {
    verdict = first_wrong(run.outcome, run.expected(Effort::kAll));
  }
  return verdict;
}

Verdict verdict_of_variant_against_reference(const Run& variant) {
  Verdict verdict = verdict_against_reference(variant);
  if (is_failure(verdict.kind)) verdict.message += "\nin " + to_text(variant.value);
  return verdict;
}

}  // namespace shardproof
