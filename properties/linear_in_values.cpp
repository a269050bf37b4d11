// Metamorphic: the last product of an operator is linear. Doubling its fixed operand (the values of
// attention, the last weight of an mlp) doubles the outputs and the gradients of what lies before.
#include "properties/doubled.h"
#include "properties/edited.h"
#include "properties/properties.h"

namespace shardproof {
namespace {

std::string inapplicable(const Case& value, const Subject&) {
  std::string why = why_not_edited(value.problem, Edit::kValuesTwice);
  return why.empty() ? why_not_doubled(value.problem) : why;
}

Verdict judge(const Evidence& evidence) {
  return verdict_of_doubled(evidence, [](const TensorSpec& spec) { return spec.value_power; });
}

}  // namespace

const Property& linear_in_values_property() {
  static const Property property{
      .name = "linear_in_values",
      .family = Family::kMetamorphic,
      .claim = "Twice the values (or last weights) give twice the outputs, bit for bit.",
      .inapplicable = inapplicable,
      .variants = [](const Case& value, const Subject&) -> std::vector<Case> {
        return {with_edit(value, Edit::kValuesTwice)};
      },
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
