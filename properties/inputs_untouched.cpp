#include "properties/findings.h"
#include "properties/properties.h"

namespace shardproof {
namespace {

Verdict judge(const Evidence& evidence) {
  return verdict_of_findings(evidence.base.outcome, Breach::kInputChanged, "input changed");
}

}  // namespace

const Property& inputs_untouched_property() {
  static const Property property{
      .name = "inputs_untouched",
      .family = Family::kContract,
      .claim = "No input or upstream gradient is written to.",
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
