#include "properties/findings.h"
#include "properties/properties.h"

namespace shardproof {
namespace {

Verdict judge(const Evidence& evidence) {
  return verdict_of_findings(evidence.base.outcome, Breach::kReplicasDiffer, "replicas differ");
}

}  // namespace

const Property& replicas_agree_property() {
  static const Property property{
      .name = "replicas_agree",
      .family = Family::kDeterminism,
      .claim = "Elements that several ranks hold have the same bits on all of them.",
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
