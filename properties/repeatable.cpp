#include "properties/properties.h"
#include "properties/same_bits.h"

namespace shardproof {
namespace {

std::string inapplicable(const Case& value, const Subject& subject) {
  return subject.contract(value).bitwise_repeatable ? "" : "the subject does not promise it";
}

// The case itself: the judge runs it again.
std::vector<Case> variants(const Case& value, const Subject&) { return {value}; }

}  // namespace

const Property& repeatable_property() {
  static const Property property{
      .name = "repeatable",
      .family = Family::kDeterminism,
      .claim = "The same case run twice in one process gives the same bits.",
      .inapplicable = inapplicable,
      .variants = variants,
      .judge = verdict_of_same_bits,
  };
  return property;
}

}  // namespace shardproof
