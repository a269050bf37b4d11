// Oracle, on the shape of errors: none of the faults that may hide below the roundings explains the
// error of three larger problems of the same kind. Larger, because small errors must add up; three,
// because roundings may once lean the way of a fault, but not for other data again and again.
#include <fmt/format.h>

#include <algorithm>

#include "harness/check/matched_filter.h"
#include "properties/properties.h"
#include "properties/twin.h"

namespace shardproof {
namespace {

// Enough elements for power, few enough to cost no more than a dozen small cases.
constexpr TwinExtents kLeast{44, 13};
constexpr std::size_t kTwins = 3;

std::string inapplicable(const Case& value, const Subject& subject) {
  if (storage_bytes(value.problem.dtype) != 2) return "the bounds of single elements see as much";
  const Problem problem = twin_of(value, subject, kLeast, 0).problem;
  const auto& all = problem.op->hypotheses;
  const bool any = std::any_of(all.begin(), all.end(),
                               [&](const Hypothesis& each) { return each.concerns(problem); });
  return any ? "" : "no known fault that may hide below the roundings concerns the problem";
}

Verdict judge(const Evidence& evidence) {
  const Run& first = *evidence.variants.front();
  bool had_power = false;
  for (const Hypothesis& each : first.value.problem.op->hypotheses) {
    if (!each.concerns(first.value.problem)) continue;
    const Fit once = fit(first, each);
    had_power = had_power || once.power >= kLeastPower;
    const bool always =
        fits(once) && std::all_of(evidence.variants.begin() + 1, evidence.variants.end(),
                                  [&](const Run* run) { return fits(fit(*run, each)); });
    if (!always) continue;
    return Verdict::falsified(
        each.says, fmt::format("the error is {:.2f} times what it would be if {} (size {:.0f} "
                               "standard deviations)\nin {}",
                               once.share, each.says, once.power, to_text(first.value)));
  }
  return had_power ? Verdict::holds() : Verdict::vacuous("no known fault would show");
}

}  // namespace

const Property& no_known_fault_fits_property() {
  static const Property property{
      .name = "no_known_fault_fits",
      .family = Family::kOracle,
      .claim = "No known fault, however small, explains the errors of three runs on plain data.",
      .inapplicable = inapplicable,
      .variants =
          [](const Case& value, const Subject& subject) {
            std::vector<Case> twins;
            for (std::size_t i = 0; i < kTwins; ++i)
              twins.push_back(twin_of(value, subject, kLeast, i));
            return twins;
          },
      .judge = judge,
      .fails_by_all = true,
  };
  return property;
}

}  // namespace shardproof
