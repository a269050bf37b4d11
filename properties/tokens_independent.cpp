// Metamorphic: tokens from position n on are drawn anew. Where tokens do not interact, those before
// n keep their rows of every output and gradient.
#include "harness/model/element.h"
#include "properties/edited.h"
#include "properties/properties.h"
#include "properties/tokens.h"

namespace shardproof {
namespace {

std::string inapplicable(const Case& value, const Subject&) {
  const Problem& problem = value.problem;
  if (!uses_key(problem, "tokens") || !uses_key(problem, "edit")) {
    return "tokens interact, or there are none";
  }
  if (problem.tokens < 2) return "fewer than two tokens";
  return problem.edit == Edit::kNone ? "" : "the problem is edited already";
}

std::vector<Case> variants(const Case& value, const Subject&) {
  const auto choices = static_cast<std::uint64_t>(value.problem.tokens - 1);
  const auto first = 1 + static_cast<Index>(mix(value.problem.seed) % choices);
  return {with_edit(value, Edit::kFrom, first)};
}

Verdict judge(const Evidence& evidence) {
  const Index tokens = evidence.base.value.problem.tokens;
  const Index from = evidence.variants.front()->value.problem.edit_at;
  Unreached unreached{.queries = tokens, .keys = tokens};
  for (Index token = 0; token < tokens; ++token) unreached.query.push_back(token < from);
  unreached.key = unreached.query;
  return verdict_of_unreached(evidence, unreached);
}

}  // namespace

const Property& tokens_independent_property() {
  static const Property property{
      .name = "tokens_independent",
      .family = Family::kMetamorphic,
      .claim =
          "In an operator that treats tokens one by one, changing some leaves the others alone.",
      .inapplicable = inapplicable,
      .variants = variants,
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
