// Metamorphic: gradients are linear in the upstream gradients. Doubling those doubles every
// gradient and leaves the forward pass alone.
#include "properties/doubled.h"
#include "properties/edited.h"
#include "properties/properties.h"

namespace shardproof {
namespace {

std::string inapplicable(const Case& value, const Subject&) {
  std::string why = why_not_edited(value.problem, Edit::kUpstreamTwice);
  if (value.problem.max_norm > 0) return "clipped gradients are not linear";
  return why.empty() ? why_not_doubled(value.problem) : why;
}

Verdict judge(const Evidence& evidence) {
  return verdict_of_doubled(
      evidence, [](const TensorSpec& spec) { return spec.kind == TensorKind::kGradient ? 1 : 0; });
}

}  // namespace

const Property& linear_in_upstream_property() {
  static const Property property{
      .name = "linear_in_upstream",
      .family = Family::kMetamorphic,
      .claim = "Twice the upstream gradients give twice every gradient, bit for bit.",
      .inapplicable = inapplicable,
      .variants = [](const Case& value, const Subject&) -> std::vector<Case> {
        return {with_edit(value, Edit::kUpstreamTwice)};
      },
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
