#include "properties/doubled.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "harness/check/compare.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

// Terms that underflow in f32 are wrong by at most 2^-149: a sum of this size notices one only
// where it lies within 2^-60 units of a tie.
constexpr double kNoUnderflowBelow = 0x1p-64;

}  // namespace

std::string why_not_doubled(const Problem& problem) {
  if (problem.dtype == DType::kF16) return "f16 has too few exponents";
  if (problem.data == DataRecipe::kTiny || problem.data == DataRecipe::kHuge) {
    return "the data underflow or overflow on purpose";
  }
  return "";
}

Verdict verdict_of_doubled(const Evidence& evidence,
                           const std::function<int(const TensorSpec&)>& power) {
  const Run& variant = *evidence.variants.front();
  const auto& base = evidence.base.outcome.tensors;
  require(variant.outcome.tensors.size() == base.size(), "runs of a problem have equal tensors");
  for (std::size_t i = 0; i < base.size(); ++i) {
    Gathered want = base[i];
    const std::vector<double>& got = variant.outcome.tensors[i].got;
    std::vector<std::uint8_t> keep;
    keep.reserve(want.got.size());
    for (double& value : want.got) {
      value = std::ldexp(value, power(want.spec));
      const double other = got[keep.size()];
      const bool tiny =
          std::fabs(value) < kNoUnderflowBelow && std::fabs(other) < kNoUnderflowBelow;
      keep.push_back(tiny ? 0 : 1);
    }
    const Comparison comparison = compare_bits(variant.outcome.tensors[i], want, keep);
    if (comparison.symptom.empty()) continue;
    Verdict verdict = verdict_of(comparison, want.spec.shape);
    verdict.message += "\nin " + to_text(variant.value);
    return verdict;
  }
  return Verdict::holds();
}

}  // namespace shardproof
