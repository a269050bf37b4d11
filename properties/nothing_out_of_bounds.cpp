#include "properties/findings.h"
#include "properties/properties.h"

namespace shardproof {
namespace {

Verdict judge(const Evidence& evidence) {
  return verdict_of_findings(evidence.base.outcome, Breach::kGuardBand, "guard band overwritten");
}

}  // namespace

const Property& nothing_out_of_bounds_property() {
  static const Property property{
      .name = "nothing_out_of_bounds",
      .family = Family::kContract,
      .claim = "Nothing is written outside a tensor.",
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
