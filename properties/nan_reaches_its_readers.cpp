// Metamorphic: one token is NaN. Its own results must be NaN: a kernel that turns NaN into 0 hides
// a broken input.
#include <cmath>

#include "harness/model/element.h"
#include "properties/edited.h"
#include "properties/properties.h"
#include "properties/tokens.h"

namespace shardproof {
namespace {

std::string inapplicable(const Case& value, const Subject&) {
  const Problem& problem = value.problem;
  std::string why = why_not_edited(problem, Edit::kNanToken);
  if (!why.empty()) return why;
  const bool known = uses_key(problem, "mask") || uses_key(problem, "hidden");
  return known ? "" : "the property does not know who reads a token";
}

Index tokens_of(const Problem& problem) {
  return uses_key(problem, "mask") ? problem.q : problem.tokens;
}

std::vector<Case> variants(const Case& value, const Subject&) {
  const auto tokens = static_cast<std::uint64_t>(tokens_of(value.problem));
  const auto chosen = static_cast<Index>(mix(value.problem.seed) % tokens);
  return {with_edit(value, Edit::kNanToken, chosen)};
}

// Whether the element belongs to what is computed from the NaN token in every sound way to compute
// it: its own row. Sums that mix it with others may be cut off where a weight is exactly 0.
bool must_be_nan(const Problem& problem, const TensorSpec& spec, Index element) {
  const Index token =
      spec.shape.coordinates(element)[static_cast<std::size_t>(spec.token_dimension)];
  if (token != problem.edit_at) return false;
  if (uses_key(problem, "features") && problem.features == 0) return false;
  if (!uses_key(problem, "mask")) return problem.hidden > 0;
  return sees_a_key(problem, spec.shape.coordinates(element)[0], token);
}

Verdict lost(const Gathered& tensor, std::size_t element, const Case& value) {
  Verdict verdict = Verdict::falsified("NaN was lost", "");
  verdict.tensor = tensor.spec.name;
  verdict.element = static_cast<Index>(element);
  verdict.got = tensor.got[element];
  verdict.want = std::nan("");
  verdict.message = verdict.tensor + " of a token that is NaN is a number\nin " + to_text(value);
  return verdict;
}

// Outputs alone: gradients of a NaN may be cut off by a derivative that is exactly 0.
Verdict judge(const Evidence& evidence) {
  const Run& variant = *evidence.variants.front();
  bool any = false;
  for (const Gathered& tensor : variant.outcome.tensors) {
    if (tensor.spec.kind != TensorKind::kOutput || tensor.spec.token_dimension < 0) continue;
    for (std::size_t i = 0; i < tensor.got.size(); ++i) {
      const bool must = must_be_nan(variant.value.problem, tensor.spec, static_cast<Index>(i));
      if (must && !std::isnan(tensor.got[i])) return lost(tensor, i, variant.value);
      any = any || must;
    }
  }
  return any ? Verdict::holds() : Verdict::discarded("no output is computed from the token");
}

}  // namespace

const Property& nan_reaches_its_readers_property() {
  static const Property property{
      .name = "nan_reaches_its_readers",
      .family = Family::kMetamorphic,
      .claim = "A token that is NaN makes its own row of every output NaN.",
      .inapplicable = inapplicable,
      .variants = variants,
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
