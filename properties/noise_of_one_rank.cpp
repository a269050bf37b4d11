// Invariance, in the mean (numerics, T4): in 16 bits, where the rounding of results hides what
// comes before it, ranks that round nothing of their own make errors as large as one rank does. A
// value rounded once too often, at every hop of a ring for example, is within every bound and shows
// here.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/check/compare.h"
#include "harness/model/require.h"
#include "properties/properties.h"
#include "properties/twin.h"

namespace shardproof {
namespace {

// What the RMS test asks for (rms_applies): 1024 elements and 32 of each side.
constexpr TwinExtents kLeast{32, 32};

// What many ranks may add for good reasons: their sums have other orders and other partial sums.
// A value rounded twice instead of once has twice the mean square.
constexpr double kLargestRatio = 1.1;

// Above that the ratio must be this many of its standard errors.
constexpr double kDeviations = 6;

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

// The sum of squared errors of a tensor, each as a fraction of what the model expects of it, and
// its relative variance, estimated from how unequal rows and columns are: elements share roundings
// along them, and a few may dominate.
struct Energy {
  double sum = 0;
  double variance = 0;
};

double relative_variance(const std::vector<double>& groups, double sum) {
  const auto count = static_cast<double>(groups.size());
  double squares = 0;
  for (double each : groups) squares += (each - sum / count) * (each - sum / count);
  return squares / (sum * sum) * count / (count - 1);
}

Energy energy_of(const Run& run, const ExpectedTensor& want) {
  const Gathered* got = run.outcome.find(want.spec.name);
  require(got != nullptr, "a run that completed returns every tensor");
  const auto width = static_cast<std::size_t>(want.spec.shape[want.spec.shape.rank() - 1]);
  std::vector<double> rows(want.want.size() / width), columns(width);
  Energy energy;
  for (std::size_t i = 0; i < want.want.size(); ++i) {
    if (!(want.sigma[i] > 0)) continue;
    const double error = (got->got[i] - want.want[i]) / want.sigma[i];
    rows[i / width] += error * error;
    columns[i % width] += error * error;
    energy.sum += error * error;
  }
  if (energy.sum == 0) return energy;
  energy.variance = std::max(relative_variance(rows, energy.sum),  //
                             relative_variance(columns, energy.sum));
  return energy;
}

Verdict judge(const Evidence& evidence) {
  const Run& sharded = *evidence.variants[0];
  const Run& alone = *evidence.variants[1];
  bool any = false;
  for (const ExpectedTensor& want : sharded.expected(Effort::kLikely).tensors) {
    if (!want.rms_applies) continue;
    any = true;
    const Energy got = energy_of(sharded, want);
    const Energy base = energy_of(alone, want);
    const double deviation = std::sqrt(got.variance + base.variance);
    const double largest = kLargestRatio * std::exp(kDeviations * deviation);
    if (got.sum <= largest * base.sum) continue;
    Verdict verdict = Verdict::falsified(
        "noisier than one rank",
        fmt::format("{}: the mean square of the error is {:.2f} times that of one rank; at most "
                    "{:.2f} times is allowed\nin {}",
                    want.spec.name, got.sum / base.sum, largest, to_text(sharded.value)));
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
