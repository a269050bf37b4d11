#include "properties/same_bits.h"

#include "harness/check/compare.h"
#include "harness/model/require.h"

namespace shardproof {

Verdict verdict_of_same_bits(const Evidence& evidence) {
  const auto& base = evidence.base.outcome.tensors;
  for (const Run* variant : evidence.variants) {
    require(variant->outcome.tensors.size() == base.size(), "runs of a case have equal tensors");
    for (std::size_t i = 0; i < base.size(); ++i) {
      const Comparison comparison = compare_bits(variant->outcome.tensors[i], base[i]);
      if (comparison.symptom.empty()) continue;
      Verdict verdict = verdict_of(comparison, base[i].spec.shape);
      verdict.message += "\nin " + to_text(variant->value);
      return verdict;
    }
  }
  return Verdict::holds();
}

}  // namespace shardproof
