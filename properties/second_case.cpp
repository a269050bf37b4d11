// Determinism: nothing that a case leaves behind in its process reaches the next one. A different
// problem runs on the same ranks after the base case, then the base case once more.
#include "harness/model/element.h"
#include "harness/model/field.h"
#include "properties/oracle.h"
#include "properties/properties.h"
#include "properties/same_bits.h"

namespace shardproof {
namespace {

// A problem of other extents; what the operator does not use, repair clears.
Case different(const Case& value, const Subject& subject) {
  Case other = value;
  Problem& p = other.problem;
  p.seed = mix(p.seed) >> 32;
  p.batch = p.batch % 2 + 1;
  for (Index* extent :
       {&p.q, &p.kv, &p.tokens, &p.features, &p.hidden, &p.outputs, &p.dim, &p.dim_v, &p.count}) {
    *extent = *extent > 4 ? *extent - 3 : *extent + 2;
  }
  p.heads += p.kv_heads;
  repair(p);
  if (subject.adapt != nullptr) subject.adapt(other);
  repair(p);
  return other;
}

std::vector<Case> variants(const Case& value, const Subject& subject) {
  const Case other = different(value, subject);
  const bool possible = other.problem != value.problem && broken_rule(other).empty() &&
                        refusal(subject, other).empty();
  return possible ? std::vector<Case>{other, value} : std::vector<Case>{};
}

Verdict judge(const Evidence& evidence) {
  const Verdict verdict = verdict_of_variant_against_reference(*evidence.variants[0]);
  if (is_failure(verdict.kind)) return verdict;
  if (!evidence.base.contract.bitwise_repeatable) return verdict;
  return verdict_of_same_bits({evidence.base, evidence.variants.subspan(1)});
}

}  // namespace

const Property& second_case_property() {
  static const Property property{
      .name = "second_case",
      .family = Family::kDeterminism,
      .claim = "A different case in the same process is right, and changes nothing that follows.",
      .variants = variants,
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
