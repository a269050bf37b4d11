// Invariance, in the mean (numerics, T4): in 16 bits, where the rounding of results hides what
// comes before it, ranks that round nothing of their own make errors as large as one rank does. A
// value rounded once too often, at every hop of a ring for example, is within every bound and shows
// here.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/check/compare.h"
#include "harness/model/require.h"
#include "properties/properties.h"
#include "properties/twin.h"

namespace shardproof {
namespace {

// What the RMS test asks for (rms_applies): 1024 elements and 32 of each side.
constexpr TwinExtents kLeast{32, 32};

// Runs that share no rounding differ by 3 % in the RMS of 1024 errors, and by more where elements
// share roundings; a value rounded twice instead of once has 1.41 times the error, or 1.2 times
// where half of the error comes from elsewhere.
constexpr double kLargestRatio = 1.2;

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

double rms_error(const Run& run, const ExpectedTensor& want) {
  const Gathered* got = run.outcome.find(want.spec.name);
  require(got != nullptr, "a run that completed returns every tensor");
  double squares = 0;
  for (std::size_t i = 0; i < want.want.size(); ++i) {
    const double error = got->got[i] - want.want[i];
    squares += error * error;
  }
  return std::sqrt(squares / static_cast<double>(want.want.size()));
}

Verdict judge(const Evidence& evidence) {
  const Run& sharded = *evidence.variants[0];
  const Run& alone = *evidence.variants[1];
  bool any = false;
  for (const ExpectedTensor& want : sharded.expected(Effort::kLikely).tensors) {
    if (!want.rms_applies) continue;
    any = true;
    const double got = rms_error(sharded, want);
    const double base = rms_error(alone, want);
    if (got <= kLargestRatio * base) continue;
    Verdict verdict = Verdict::falsified(
        "noisier than one rank",
        fmt::format("{}: the RMS of the error is {:.4g}, {:.2f} times that of one rank; at most {} "
                    "times is allowed\nin {}",
                    want.spec.name, got, got / base, kLargestRatio, to_text(sharded.value)));
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
