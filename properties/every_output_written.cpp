#include "properties/findings.h"
#include "properties/properties.h"

namespace shardproof {
namespace {

Verdict judge(const Evidence& evidence) {
  return verdict_of_findings(evidence.base.outcome, Breach::kUnwritten, "unwritten");
}

}  // namespace

const Property& every_output_written_property() {
  static const Property property{
      .name = "every_output_written",
      .family = Family::kContract,
      .claim = "Every element of every output and gradient is written.",
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
