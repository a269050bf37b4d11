// Invariance, in the mean (numerics, T4): in 16 bits, where the rounding of results hides what
// comes before it, ranks that round nothing of their own make errors as large as one rank does. A
// value rounded once too often, at every hop of a ring for example, is within every bound and shows
// here.
#include <fmt/format.h>

#include "harness/check/noise.h"
#include "harness/model/require.h"
#include "properties/properties.h"
#include "properties/twin.h"

namespace shardproof {
namespace {

// What the RMS test asks for (rms_applies): 1024 elements and 32 of each side.
constexpr TwinExtents kLeast{32, 32};

// Whether ranks round what one rank does not.
bool rounds_between_ranks(const Precision& precision) {
  for (DType each : {precision.reduction, precision.block_out, precision.query_gradient,
                     precision.kv_gradient}) {
    if (each != precision.accumulator) return true;
  }
  return false;
}

std::string inapplicable(const Case& value, const Subject& subject) {
  if (subject.axes.empty() || value.placement.mesh.ranks() == 1) return "there is one rank";
  if (storage_bytes(value.problem.dtype) != 2) return "the bounds of single elements see as much";
  if (rounds_between_ranks(subject.contract(value).precision)) return "ranks may round";
  return "";
}

std::vector<Case> variants(const Case& value, const Subject& subject) {
  const Case sharded = twin_of(value, subject, kLeast, 1);
  Case alone = sharded;
  alone.placement.mesh = {};
  alone.placement.layout = Layout::kContiguous;
  if (subject.adapt != nullptr) subject.adapt(alone);
  const bool same = alone.problem == sharded.problem && subject.unsupported(alone).empty() &&
                    subject.unsupported(sharded).empty();
  return same ? std::vector<Case>{sharded, alone} : std::vector<Case>{};
}

Verdict judge(const Evidence& evidence) {
  const Run& sharded = *evidence.variants[0];
  const Run& alone = *evidence.variants[1];
  bool any = false;
  for (const ExpectedTensor& want : sharded.expected(Effort::kLikely).tensors) {
    if (!want.rms_applies) continue;
    any = true;
    const Gathered* got = sharded.outcome.find(want.spec.name);
    const Gathered* base = alone.outcome.find(want.spec.name);
    require(got != nullptr && base != nullptr, "a run that completed returns every tensor");
    const Noise noise = compare_noise(*got, *base, want);
    if (!noise.exceeds()) continue;
    Verdict verdict = Verdict::falsified(
        "noisier than one rank",
        fmt::format("{}: the mean square of the error is {:.2f} times that of one rank; at most "
                    "{:.2f} times is allowed\nin {}",
                    want.spec.name, noise.ratio, noise.allowed, to_text(sharded.value)));
    verdict.tensor = want.spec.name;
    return verdict;
  }
  return any ? Verdict::holds() : Verdict::discarded("no tensor has errors to take the mean of");
}

}  // namespace

const Property& noise_of_one_rank_property() {
  static const Property property{
      .name = "noise_of_one_rank",
      .family = Family::kInvariance,
      .claim = "In 16 bits the errors of many ranks are as large as those of one, in the mean.",
      .inapplicable = inapplicable,
      .variants = variants,
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
