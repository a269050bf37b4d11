#include "properties/tokens.h"

#include <algorithm>

#include "harness/check/compare.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

// Whether token `token` of `tensor` is unreached.
bool is_unreached(const Unreached& unreached, std::string_view tensor, Index batch, Index token) {
  const auto query = static_cast<std::size_t>(batch * unreached.queries + token);
  const auto key = static_cast<std::size_t>(batch * unreached.keys + token);
  if (tensor == "dk" || tensor == "dv") return unreached.key[key] != 0;
  if (tensor == "dx") return unreached.query[query] != 0 && unreached.key[key] != 0;
  return unreached.query[query] != 0;
}

// The same for a sum over batch entries.
bool is_unreached_in_all(const Unreached& unreached, std::string_view tensor, Index token) {
  for (Index batch = 0; batch < unreached.batches; ++batch) {
    if (!is_unreached(unreached, tensor, batch, token)) return false;
  }
  return true;
}

// A byte per element of `spec`: 1 where it belongs to an unreached token. Tokens lie along
// spec.token_dimension; dimension 0, if that is another one, counts batch entries, but heads for
// the bias, whose gradient is a sum over batch entries.
std::vector<std::uint8_t> kept_elements(const TensorSpec& spec, const Unreached& unreached) {
  const int dimension = spec.token_dimension;
  Index outer = 1;
  for (int d = 0; d < dimension; ++d) outer *= spec.shape[d];
  Index inner = 1;
  for (int d = dimension + 1; d < spec.shape.rank(); ++d) inner *= spec.shape[d];
  const bool summed = spec.role == Role::kScoreBias;
  std::vector<std::uint8_t> keep;
  keep.reserve(static_cast<std::size_t>(spec.shape.elements()));
  for (Index o = 0; o < outer; ++o) {
    const Index batch = summed ? 0 : o * unreached.batches / outer;
    for (Index token = 0; token < spec.shape[dimension]; ++token) {
      const bool kept = summed ? is_unreached_in_all(unreached, spec.name, token)
                               : is_unreached(unreached, spec.name, batch, token);
      keep.insert(keep.end(), static_cast<std::size_t>(inner), kept ? 1 : 0);
    }
  }
  return keep;
}

}  // namespace

bool uses_key(const Problem& problem, std::string_view key) {
  const auto& keys = problem.op->keys;
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

bool sees_a_key(const Problem& problem, Index batch, Index query) {
  for (Index key = 0; key < problem.kv; ++key) {
    if (visible(problem, batch, query, key)) return true;
  }
  return false;
}

Verdict verdict_of_unreached(const Evidence& evidence, const Unreached& unreached) {
  const Run& variant = *evidence.variants.front();
  const auto& base = evidence.base.outcome.tensors;
  require(variant.outcome.tensors.size() == base.size(), "an edit changes no tensor's shape");
  for (std::size_t i = 0; i < base.size(); ++i) {
    const TensorSpec& spec = base[i].spec;
    if (spec.token_dimension < 0 || base[i].got.empty()) continue;
    const auto keep = kept_elements(spec, unreached);
    const Comparison comparison = compare_bits(variant.outcome.tensors[i], base[i], keep);
    if (comparison.symptom.empty()) continue;
    Verdict verdict = verdict_of(comparison, spec.shape);
    verdict.message += "\nin " + to_text(variant.value);
    return verdict;
  }
  return Verdict::holds();
}

}  // namespace shardproof
