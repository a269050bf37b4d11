#include "harness/model/element.h"
#include "properties/properties.h"
#include "properties/same_bits.h"

namespace shardproof {
namespace {

std::string inapplicable(const Case& value, const Subject& subject) {
  if (value.placement.mesh.ranks() == 1) return "one rank has one schedule";
  return subject.contract(value).bitwise_across_schedules ? "" : "the subject does not promise it";
}

std::vector<Case> variants(const Case& value, const Subject&) {
  Case other = value;
  other.placement.schedule = mix(value.placement.schedule + 1);
  return {other};
}

}  // namespace

const Property& schedule_invariant_property() {
  static const Property property{
      .name = "schedule_invariant",
      .family = Family::kInvariance,
      .claim = "Whatever the order of messages and ranks, the bits are the same.",
      .inapplicable = inapplicable,
      .variants = variants,
      .judge = verdict_of_same_bits,
  };
  return property;
}

}  // namespace shardproof
