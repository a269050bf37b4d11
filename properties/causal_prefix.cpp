// Metamorphic: tokens from position n on are drawn anew. A query that sees none of them keeps its
// row of every output and gradient; a key that only such queries see keeps its gradients.
#include <algorithm>

#include "harness/model/element.h"
#include "properties/edited.h"
#include "properties/properties.h"
#include "properties/tokens.h"

namespace shardproof {
namespace {

// In self-attention the tokens drawn anew are queries, too.
bool is_self_attention(const Problem& problem) { return uses_key(problem, "features"); }

std::string inapplicable(const Case& value, const Subject&) {
  const Problem& problem = value.problem;
  if (!uses_key(problem, "mask") || !uses_key(problem, "edit")) return "the operator has no mask";
  return problem.edit == Edit::kNone ? "" : "the problem is edited already";
}

// The positions n for which some query that sees a key sees none at n or beyond, while another
// query does.
Range possible_cuts(const Problem& problem) {
  Index first = problem.kv;
  Index end = 0;
  for (Index batch = 0; batch < problem.batch; ++batch) {
    for (Index query = 0; query < problem.q; ++query) {
      Index last = problem.kv - 1;
      while (last >= 0 && !visible(problem, batch, query, last)) --last;
      if (last < 0) continue;
      if (is_self_attention(problem)) last = std::max(last, query);
      first = std::min(first, last + 1);
      end = std::max(end, last + 1);
    }
  }
  return {first, std::max<Index>(end - first, 0)};
}

std::vector<Case> variants(const Case& value, const Subject&) {
  const Range cuts = possible_cuts(value.problem);
  if (cuts.count == 0) return {};
  const auto chosen = mix(value.problem.seed) % static_cast<std::uint64_t>(cuts.count);
  return {with_edit(value, Edit::kFrom, cuts.first + static_cast<Index>(chosen))};
}

bool reaches(const Problem& problem, Index batch, Index query, Index from) {
  if (is_self_attention(problem) && query >= from) return true;
  for (Index key = problem.kv - 1; key >= from; --key) {
    if (visible(problem, batch, query, key)) return true;
  }
  return false;
}

Unreached unreached_before(const Problem& problem, Index from) {
  Unreached result{.batches = problem.batch, .queries = problem.q, .keys = problem.kv};
  for (Index batch = 0; batch < problem.batch; ++batch) {
    std::vector<Index> reached;
    for (Index query = 0; query < problem.q; ++query) {
      const bool moves = reaches(problem, batch, query, from);
      result.query.push_back(moves ? 0 : 1);
      if (moves) reached.push_back(query);
    }
    for (Index key = 0; key < problem.kv; ++key) {
      const bool moves =
          key >= from || std::any_of(reached.begin(), reached.end(), [&](Index query) {
            return visible(problem, batch, query, key);
          });
      result.key.push_back(moves ? 0 : 1);
    }
  }
  return result;
}

Verdict judge(const Evidence& evidence) {
  const Index from = evidence.variants.front()->value.problem.edit_at;
  return verdict_of_unreached(evidence, unreached_before(evidence.base.value.problem, from));
}

}  // namespace

const Property& causal_prefix_property() {
  static const Property property{
      .name = "causal_prefix",
      .family = Family::kMetamorphic,
      .claim = "Changing tokens that a query cannot see leaves its results alone, bit for bit.",
      .inapplicable = inapplicable,
      .variants = variants,
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
