#include "properties/same_values.h"

#include "harness/check/compare.h"
#include "harness/model/require.h"

namespace shardproof {

// A difference within the base run's bound alone needs no reference for the other run.
Verdict verdict_of_same_values(const Run& base, const Run& other) {
  const auto& tensors = base.outcome.tensors;
  require(tensors.size() == other.outcome.tensors.size(), "runs of a problem have equal tensors");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Gathered& got = other.outcome.tensors[i];
    const std::string_view name = tensors[i].spec.name;
    const ExpectedTensor* bounds = base.expected(Effort::kLikely).find(name);
    if (compare(got, tensors[i], nullptr, bounds).symptom.empty()) continue;
    const ExpectedTensor* other_bounds = other.expected(Effort::kLikely).find(name);
    const Comparison comparison = compare(got, tensors[i], other_bounds, bounds);
    if (comparison.symptom.empty()) continue;
    Verdict verdict = verdict_of(comparison, tensors[i].spec.shape);
    verdict.message += "\nin " + to_text(other.value);
    return verdict;
  }
  return Verdict::holds();
}

}  // namespace shardproof
