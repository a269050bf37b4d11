// Metamorphic: the logits of columns that are no words become NaN. Nothing moves.
#include "properties/edited.h"
#include "properties/properties.h"
#include "properties/same_bits.h"
#include "properties/tokens.h"

namespace shardproof {
namespace {

std::string inapplicable(const Case& value, const Subject& subject) {
  const Problem& problem = value.problem;
  if (!uses_key(problem, "padding")) return "the operator has no padding";
  if (problem.padding == 0) return "every column is a word";
  std::string why = why_not_edited(problem, Edit::kHiddenNan);
  if (!why.empty()) return why;
  return subject.contract(value).hidden_may_be_nan ? "" : "the subject does not promise it";
}

std::vector<Case> variants(const Case& value, const Subject&) {
  return {with_edit(value, Edit::kHiddenNan)};
}

}  // namespace

const Property& padding_never_matters_property() {
  static const Property property{
      .name = "padding_never_matters",
      .family = Family::kMetamorphic,
      .claim = "The padding of a vocabulary may hold NaN: nothing moves, bit for bit.",
      .inapplicable = inapplicable,
      .variants = variants,
      .judge = verdict_of_same_bits,
  };
  return property;
}

}  // namespace shardproof
