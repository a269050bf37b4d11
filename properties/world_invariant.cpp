#include "properties/properties.h"
#include "properties/same_bits.h"
#include "properties/same_values.h"

namespace shardproof {
namespace {

std::string inapplicable(const Case& value, const Subject&) {
  return value.placement.world == "sim" ? "the case runs in the simulated world" : "";
}

std::vector<Case> variants(const Case& value, const Subject&) {
  Case other = value;
  other.placement.world = "sim";
  return {other};
}

// Processes sum in the order of the group, as simulated ranks do: where the bits do not depend on
// the order of messages, they do not depend on the world. NCCL has an order of its own.
Verdict judge(const Evidence& evidence) {
  const bool same_order = evidence.base.value.placement.world == "mpi";
  if (same_order && evidence.base.contract.bitwise_across_schedules)
    return verdict_of_same_bits(evidence);
  return verdict_of_same_values(evidence.base, *evidence.variants.front());
}

}  // namespace

const Property& world_invariant_property() {
  static const Property property{
      .name = "world_invariant",
      .family = Family::kInvariance,
      .claim =
          "Ranks that are processes give the bits that simulated ranks give, up to the order "
          "of NCCL's sums.",
      .inapplicable = inapplicable,
      .variants = variants,
      .judge = judge,
      .hunted_in = "mpi",
  };
  return property;
}

}  // namespace shardproof
