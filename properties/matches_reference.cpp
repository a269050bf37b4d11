#include "harness/check/compare.h"
#include "properties/oracle.h"
#include "properties/properties.h"

namespace shardproof {
namespace {

Verdict vacuity(const Expected& expected, int ranks) {
  bool nothing = true;
  for (const ExpectedTensor& want : expected.tensors) {
    if (want.want.empty()) continue;
    nothing = false;
    if (sharpness(want, ranks) == Sharpness::kSharp) return Verdict::holds();
  }
  return Verdict::vacuous(nothing ? "every output is empty"
                                  : "the bounds are wider than any structural fault");
}

Verdict judge(const Evidence& evidence) {
  const Run& run = evidence.base;
  const Verdict verdict = verdict_against_reference(run);
  if (is_failure(verdict.kind)) return verdict;
  return vacuity(run.expected(oracle_effort(run.value.problem)), run.value.placement.mesh.ranks());
}

}  // namespace

const Property& matches_reference_property() {
  static const Property property{
      .name = "matches_reference",
      .family = Family::kOracle,
      .claim = "Every output and every gradient is within its bound of the float64 reference.",
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
