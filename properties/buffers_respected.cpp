#include "properties/findings.h"
#include "properties/properties.h"

namespace shardproof {
namespace {

Verdict judge(const Evidence& evidence) {
  const Outcome& outcome = evidence.base.outcome;
  const Verdict changed =
      verdict_of_findings(outcome, Breach::kInFlightChanged, "changed in flight");
  if (is_failure(changed.kind)) return changed;
  return verdict_of_findings(outcome, Breach::kLeakedRequest, "request never waited for");
}

}  // namespace

const Property& buffers_respected_property() {
  static const Property property{
      .name = "buffers_respected",
      .family = Family::kContract,
      .claim = "No send buffer changes in flight and every request is waited for.",
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
