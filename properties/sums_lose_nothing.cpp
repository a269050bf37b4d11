// Oracle, exact: terms of a sum that are large and cancel leave the small ones as they were. Every
// partial sum is an integer that the declared accumulator holds, so any order is right to the last
// bit, and a sum or a reduction in a narrower type is wrong at once.
#include <algorithm>
#include <bit>

#include "harness/check/compare.h"
#include "harness/model/field.h"
#include "harness/model/require.h"
#include "properties/edited.h"
#include "properties/properties.h"

namespace shardproof {
namespace {

std::string inapplicable(const Case& value, const Subject& subject) {
  const std::string_view op = value.problem.op->name;
  if (op != "mlp" && op != "attention") return "the operator's sums are not exact";
  if (subject.contract(value).precision.merge_blocks) return "merging blocks rounds each of them";
  return why_not_edited(value.problem, Edit::kSwamped);
}

// An mlp of integers: relu, and so few features and outputs that stored integers stay below 2^8,
// what bf16 holds. Attention with equal weights, a power of two of them.
void make_exact(Problem& p) {
  p.activation = Activation::kRelu;
  p.gated = false;
  p.features = std::clamp<Index>(p.features, 1, 8);
  p.outputs = std::clamp<Index>(p.outputs, 1, 8);
  p.tokens = std::clamp<Index>(p.tokens, 1, 16);
  p.hidden = std::clamp<Index>(p.hidden, 4, 64);
  p.q = std::clamp<Index>(p.q, 1, 64);
  p.kv =
      static_cast<Index>(std::bit_ceil(static_cast<std::uint64_t>(std::clamp<Index>(p.kv, 8, 64))));
  p.batch = std::clamp<Index>(p.batch, 1, 2);
  p.bias = ScoreBias::kNone;
  p.sink = false;
  p.softcap = 0;
  p.dropout = 0;
}

std::vector<Case> variants(const Case& value, const Subject& subject) {
  Case exact = with_edit(value, Edit::kSwamped);
  exact.problem.data = DataRecipe::kInteger;
  make_exact(exact.problem);
  repair(exact.problem);
  if (subject.adapt != nullptr) subject.adapt(exact);
  return {std::move(exact)};
}

// Whether the query sees 1, 2, 4, ... keys, so that their weights are exact.
bool has_exact_weights(const Problem& p, Index batch, Index query) {
  std::uint64_t count = 0;
  for (Index key = 0; key < p.kv; ++key) count += visible(p, batch, query, key) ? 1 : 0;
  return std::has_single_bit(count);
}

// Which elements are exact: all of an mlp, and of attention the outputs with exact weights.
// Gradients of attention go through lse, which is no integer.
std::vector<std::uint8_t> exact_elements(const Problem& problem, const TensorSpec& spec) {
  std::vector<std::uint8_t> exact(static_cast<std::size_t>(spec.shape.elements()), 1);
  if (problem.op->name != "attention") return exact;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const auto at = spec.shape.coordinates(static_cast<Index>(i));
    exact[i] = spec.name == "out" && has_exact_weights(problem, at[0], at[1]) ? 1 : 0;
  }
  return exact;
}

Verdict judge(const Evidence& evidence) {
  const Run& run = *evidence.variants.front();
  for (const ExpectedTensor& want : run.expected(Effort::kValues).tensors) {
    const Gathered* got = run.outcome.find(want.spec.name);
    require(got != nullptr, "a run that completed returns every tensor");
    Gathered once_rounded{want.spec, want.want};
    for (double& value : once_rounded.got) value = round_to(want.spec.dtype, value);
    const Comparison comparison =
        compare_bits(*got, once_rounded, exact_elements(run.value.problem, want.spec));
    if (comparison.symptom.empty()) continue;
    Verdict verdict = verdict_of(comparison, want.spec.shape);
    verdict.message += "\nin " + to_text(run.value);
    return verdict;
  }
  return Verdict::holds();
}

}  // namespace

const Property& sums_lose_nothing_property() {
  static const Property property{
      .name = "sums_lose_nothing",
      .family = Family::kOracle,
      .claim = "Where large terms of a sum cancel, the small ones are all there, to the last bit.",
      .inapplicable = inapplicable,
      .variants = variants,
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
