// Metamorphic: all scores are equal and values one-hot, so that every key that a query sees weighs
// alike. With other data a key of tiny probability could be lost, or one too many be seen, unseen.
#include "properties/edited.h"
#include "properties/oracle.h"
#include "properties/properties.h"

namespace shardproof {

const Property& uniform_attention_property() {
  static const Property property{
      .name = "uniform_attention",
      .family = Family::kOracle,
      .claim = "With equal scores every visible key weighs alike, and no other key weighs at all.",
      .inapplicable = [](const Case& value,
                         const Subject&) { return why_not_edited(value.problem, Edit::kUniform); },
      .variants = [](const Case& value, const Subject&) -> std::vector<Case> {
        return {with_edit(value, Edit::kUniform)};
      },
      .judge =
          [](const Evidence& evidence) {
            return verdict_of_variant_against_reference(*evidence.variants.front());
          },
  };
  return property;
}

}  // namespace shardproof
