// Metamorphic: keys and values that no query of their batch entry sees become NaN. Nothing moves,
// and the gradients of those keys are exactly zero.
#include "harness/check/compare.h"
#include "properties/edited.h"
#include "properties/properties.h"
#include "properties/same_bits.h"
#include "properties/tokens.h"

namespace shardproof {
namespace {

bool is_hidden(const Problem& problem, Index batch, Index key) {
  for (Index query = 0; query < problem.q; ++query) {
    if (visible(problem, batch, query, key)) return false;
  }
  return true;
}

bool has_hidden_key(const Problem& problem) {
  for (Index batch = 0; batch < problem.batch; ++batch) {
    for (Index key = 0; key < problem.kv; ++key) {
      if (is_hidden(problem, batch, key)) return true;
    }
  }
  return false;
}

std::string inapplicable(const Case& value, const Subject& subject) {
  const Problem& problem = value.problem;
  if (!uses_key(problem, "mask") || !uses_key(problem, "edit")) return "the operator has no mask";
  // In self-attention a hidden key is still a query.
  if (uses_key(problem, "features")) return "every token is a query, too";
  if (problem.edit != Edit::kNone) return "the problem is edited already";
  if (!has_hidden_key(problem)) return "every key is seen by some query";
  return subject.contract(value).hidden_may_be_nan ? "" : "the subject does not promise it";
}

std::vector<Case> variants(const Case& value, const Subject&) {
  return {with_edit(value, Edit::kHiddenNan)};
}

// dk or dv: hidden keys have gradients that are exactly zero.
Verdict hidden_are_zero(const Problem& problem, const Gathered& gradient) {
  const TensorSpec& spec = gradient.spec;
  const int dimension = spec.token_dimension;
  for (std::size_t i = 0; i < gradient.got.size(); ++i) {
    if (gradient.got[i] == 0) continue;
    const auto at = spec.shape.coordinates(static_cast<Index>(i));
    if (!is_hidden(problem, at[0], at[static_cast<std::size_t>(dimension)])) continue;
    Verdict result = Verdict::falsified("hidden key has a gradient", "");
    result.tensor = spec.name;
    result.element = static_cast<Index>(i);
    result.got = gradient.got[i];
    result.message = result.tensor + " of a key that no query sees is not zero";
    return result;
  }
  return Verdict::holds();
}

Verdict judge(const Evidence& evidence) {
  Verdict verdict = verdict_of_same_bits(evidence);
  if (is_failure(verdict.kind)) return verdict;
  for (const Gathered& tensor : evidence.base.outcome.tensors) {
    if (tensor.spec.name != "dk" && tensor.spec.name != "dv") continue;
    verdict = hidden_are_zero(evidence.base.value.problem, tensor);
    if (is_failure(verdict.kind)) return verdict;
  }
  return Verdict::holds();
}

}  // namespace

const Property& masked_keys_never_matter_property() {
  static const Property property{
      .name = "masked_keys_never_matter",
      .family = Family::kMetamorphic,
      .claim = "Keys that no query sees may hold NaN: nothing moves, and their gradients are zero.",
      .inapplicable = inapplicable,
      .variants = variants,
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
