#include "harness/check/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>

#include "harness/check/noise.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kLanes = 8;

// The greatest value seen per lane, and where. Lanes let the compiler use vector instructions
// without reordering anything. NaN is never the greatest.
struct Greatest {
  std::array<double, kLanes> value{};
  std::array<double, kLanes> where{};

  void take(std::size_t lane, double candidate, std::size_t index) {
    const bool greater = candidate > value[lane];
    value[lane] = greater ? candidate : value[lane];
    where[lane] = greater ? static_cast<double>(index) : where[lane];
  }

  // The first index with the greatest value.
  std::pair<double, Index> best() const {
    std::size_t lane = 0;
    for (std::size_t i = 1; i < kLanes; ++i) {
      if (value[i] > value[lane] || (value[i] == value[lane] && where[i] < where[lane])) lane = i;
    }
    return {value[lane], static_cast<Index>(where[lane])};
  }
};

// Calls step(lane, index) for every index, in an order that vectorises.
template <typename Step>
void for_lanes(std::size_t count, Step step) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) step(lane, i + lane);
  }
  for (; i < count; ++i) step(0, i);
}

double total(const std::array<double, kLanes>& lanes) {
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

double ratio(double got, double want, double bound) {
  return got == want ? 0 : std::fabs(got - want) / bound;
}

// Which bound a scan judges by, element by element.
struct Sides {
  const double* got;
  const double* want;
  std::size_t count;
};

template <typename Bound>
void scan(const Sides& sides, Bound bound, Comparison& result) {
  Greatest greatest;
  std::array<double, kLanes> rejected{};
  for_lanes(sides.count, [&](std::size_t lane, std::size_t i) {
    const double limit = bound(i);
    rejected[lane] += accepts(sides.got[i], sides.want[i], limit) ? 0.0 : 1.0;
    greatest.take(lane, ratio(sides.got[i], sides.want[i], limit), i);
  });
  result.elements = static_cast<Index>(sides.count);
  result.rejected = static_cast<Index>(total(rejected));
  if (sides.count == 0) return;
  std::tie(result.likely_ratio, result.element) = greatest.best();
}

// Points the report at `element`.
template <typename Bound>
void report(const Sides& sides, Index element, Bound bound, Comparison& result) {
  const auto i = static_cast<std::size_t>(element);
  result.element = element;
  result.got = sides.got[i];
  result.want = sides.want[i];
  result.bound = bound(i);
}

// Names what is wrong with the rejected elements: NaN before infinity before a finite error.
template <typename Bound>
void name_rejection(const Sides& sides, Bound bound, Comparison& result) {
  Index infinite = -1;
  for (std::size_t i = 0; i < sides.count; ++i) {
    if (accepts(sides.got[i], sides.want[i], bound(i))) continue;
    if (std::isnan(sides.got[i])) {
      result.symptom = symptom::kNotANumber;
      return report(sides, static_cast<Index>(i), bound, result);
    }
    if (std::isinf(sides.got[i]) && infinite < 0) infinite = static_cast<Index>(i);
  }
  result.symptom = infinite < 0 ? symptom::kLikely : symptom::kInfinite;
  report(sides, infinite < 0 ? result.element : infinite, bound, result);
}

bool same_type(const TensorSpec& got, std::size_t got_count, const TensorSpec& want,
               std::size_t want_count, Comparison& result) {
  result.tensor = want.name;
  if (got.dtype != want.dtype) {
    result.symptom = symptom::kDtype;
  } else if (!(got.shape == want.shape) || got_count != want_count) {
    result.symptom = symptom::kShape;
  }
  return result.symptom.empty();
}

// RMS(error / sigma) over the elements that the model makes a statement about.
double rms_of(const Sides& sides, const ExpectedTensor& want) {
  if (want.sigma.empty()) return 0;
  std::array<double, kLanes> squares{};
  std::array<double, kLanes> counts{};
  for_lanes(sides.count, [&](std::size_t lane, std::size_t i) {
    const bool counted =
        (want.sigma[i] > 0) & (want.likely[i] < kInfinity) & (std::fabs(want.want[i]) < kInfinity);
    const double error = (sides.got[i] - sides.want[i]) / want.sigma[i];
    squares[lane] += counted ? error * error : 0;
    counts[lane] += counted ? 1 : 0;
  });
  const double count = total(counts);
  return count > 0 ? std::sqrt(total(squares) / count) : 0;
}

}  // namespace

Comparison compare(const Gathered& got, const ExpectedTensor& want) {
  Comparison result;
  if (!same_type(got.spec, got.got.size(), want.spec, want.want.size(), result)) return result;
  const Sides sides{got.got.data(), want.want.data(), want.want.size()};
  require(want.likely.size() == sides.count && want.worst.size() == sides.count,
          "the reference gives both bounds for every element");
  const auto likely = [&](std::size_t i) { return want.likely[i]; };
  const auto worst = [&](std::size_t i) { return want.worst[i]; };

  Comparison by_worst;
  scan(sides, worst, by_worst);
  scan(sides, likely, result);
  result.worst_ratio = by_worst.likely_ratio;
  result.rms = rms_of(sides, want);
  if (sides.count > 0) report(sides, result.element, likely, result);

  if (by_worst.rejected > 0) {
    name_rejection(sides, worst, by_worst);
    const bool finite = by_worst.symptom == symptom::kLikely;
    result.symptom = finite ? symptom::kWorst : by_worst.symptom;
    report(sides, by_worst.element, worst, result);
  } else if (result.rejected > 0) {
    name_rejection(sides, likely, result);
  } else if (want.rms_applies && !(result.rms <= kLargestRms)) {
    // The mean square is at most 1; so far off it may be by chance.
    const double chance = std::exp(kDeviations / 2 * relative_deviation(got, want));
    result.allowed_rms = std::max(kLargestRms, chance);
    if (!(result.rms <= result.allowed_rms)) result.symptom = symptom::kNoise;
  }
  return result;
}

Comparison compare(const Gathered& got, const Gathered& other, const ExpectedTensor* got_bounds,
                   const ExpectedTensor* other_bounds) {
  Comparison result;
  if (!same_type(got.spec, got.got.size(), other.spec, other.got.size(), result)) return result;
  const Sides sides{got.got.data(), other.got.data(), other.got.size()};
  for (const ExpectedTensor* bounds : {got_bounds, other_bounds}) {
    require(bounds == nullptr || bounds->likely.size() == sides.count,
            "the reference gives a bound for every element");
  }
  const double* first = got_bounds ? got_bounds->likely.data() : nullptr;
  const double* second = other_bounds ? other_bounds->likely.data() : nullptr;
  const auto bound = [=](std::size_t i) {
    return (first ? first[i] : 0) + (second ? second[i] : 0);
  };
  scan(sides, bound, result);
  if (sides.count > 0) report(sides, result.element, bound, result);
  if (result.rejected > 0) name_rejection(sides, bound, result);
  return result;
}

Comparison compare_bits(const Gathered& got, const Gathered& other,
                        std::span<const std::uint8_t> keep) {
  Comparison result;
  if (!same_type(got.spec, got.got.size(), other.spec, other.got.size(), result)) return result;
  const std::size_t count = got.got.size();
  require(keep.empty() || keep.size() == count, "a choice of elements covers the tensor");
  const double* a = got.got.data();
  const double* b = other.got.data();
  const auto differs = [=](std::size_t i) {
    return !((a[i] == b[i]) | ((a[i] != a[i]) & (b[i] != b[i]))) & (keep.empty() || keep[i] != 0);
  };
  result.elements = static_cast<Index>(count);
  for (std::size_t i = 0; i < count; ++i) result.rejected += differs(i);
  if (result.rejected == 0) return result;
  std::size_t first = 0;
  while (!differs(first)) ++first;
  result.symptom = symptom::kBits;
  report(
      Sides{a, b, count}, static_cast<Index>(first), [](std::size_t) { return 0.0; }, result);
  return result;
}

Verdict verdict_of(const Comparison& comparison, const Shape& shape) {
  if (comparison.symptom.empty()) return Verdict::holds();
  Verdict result = Verdict::falsified(comparison.symptom, "");
  result.tensor = comparison.tensor;
  if (comparison.element < 0) {
    result.message = fmt::format("{}: {}", comparison.tensor, comparison.symptom);
    return result;
  }
  result.element = comparison.element;
  result.got = comparison.got;
  result.want = comparison.want;
  result.bound = comparison.bound;
  if (comparison.symptom == symptom::kNoise) {
    result.message = fmt::format("{}: RMS of error / sigma is {:.3f}, at most {:.3f} is allowed",
                                 comparison.tensor, comparison.rms, comparison.allowed_rms);
    return result;
  }
  const auto at = shape.coordinates(comparison.element);
  const auto used = std::span(at).first(static_cast<std::size_t>(shape.rank()));
  result.message =
      fmt::format("{}[{}] is {:.9g}, want {:.9g} +- {:.3g}; {}; {} of {} elements",
                  comparison.tensor, fmt::join(used, ", "), comparison.got, comparison.want,
                  comparison.bound, comparison.symptom, comparison.rejected, comparison.elements);
  return result;
}

std::vector<Comparison> compare_all(const Run& run, Effort effort) {
  std::vector<Comparison> result;
  for (const ExpectedTensor& want : run.expected(effort).tensors) {
    const Gathered* got = run.outcome.find(want.spec.name);
    if (got != nullptr) result.push_back(compare(*got, want));
  }
  return result;
}

Sharpness sharpness(const ExpectedTensor& want, int parts) {
  const double shares = std::max(parts, 2);
  const double cancelling = want.terms / std::sqrt(shares);
  const std::size_t count = want.want.size();
  bool moves = false;
  for (std::size_t i = 0; i < count; ++i) {
    const double value = want.want[i];
    const double other = want.want[(i + count / 2) % count];
    const double swapped = std::isfinite(other) ? std::fabs(value - other) : 0.0;
    const double moved = std::max({std::fabs(value) / shares, cancelling, swapped});
    const double bound = want.likely[i];
    if (bound == 0 || (std::isfinite(value) && moved > 2 * bound)) return Sharpness::kSharp;
    moves = moves || moved > 0;
  }
  return moves ? Sharpness::kBlunt : Sharpness::kIdle;
}

double detection_limit(const ExpectedTensor& want) {
  double limit = kInfinity;
  for (std::size_t i = 0; i < want.want.size(); ++i) {
    const double magnitude = std::fabs(want.want[i]);
    const double relative = want.likely[i] / magnitude;
    limit = magnitude < kInfinity && relative < limit ? relative : limit;
  }
  return limit;
}

double baseline_limit(const Gathered& got, const ExpectedTensor& want) {
  double error = 0;
  double magnitude = 0;
  for (std::size_t i = 0; i < want.want.size(); ++i) {
    const double each = std::fabs(got.got[i] - want.want[i]);
    if (!(std::fabs(want.want[i]) < kInfinity) || !(each < kInfinity)) continue;
    error = std::max(error, each);
    magnitude = std::max(magnitude, std::fabs(want.want[i]));
  }
  return 2 * error / magnitude;
}

}  // namespace shardproof
