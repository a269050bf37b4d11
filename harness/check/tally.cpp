#include "harness/check/tally.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "harness/model/operator.h"

namespace shardproof {
namespace {

constexpr std::size_t kMostReasons = 200;

// Reasons that differ only in numbers are one reason.
std::string without_numbers(std::string_view text) {
  std::string result;
  for (char letter : text.substr(0, text.find('\n'))) {
    const bool digit = std::isdigit(static_cast<unsigned char>(letter)) != 0;
    if (digit && !result.empty() && result.back() == '#') continue;
    result += digit ? '#' : letter;
  }
  return result;
}

}  // namespace

Tally::Tally(const Domain& domain, const Tables& all) : tables(all), coverage(domain, all) {}

void Tally::add(const Judged& judged) {
  const CaseResult& result = judged.result;
  const std::string& subject = judged.value.placement.subject;
  ++kinds[static_cast<std::size_t>(result.overall)];
  if (!judged.origin.empty()) ++stored;
  const auto count_reason = [&](std::string_view who, VerdictKind kind, std::string_view why) {
    std::string reason(name(kind));
    reason.append(" / ").append(who).append(": ").append(without_numbers(why));
    const auto known = reasons.find(reason);
    if (known != reasons.end()) {
      ++known->second;
    } else if (reasons.size() < kMostReasons) {
      reasons[reason] = 1;
    }
  };
  if (result.overall == VerdictKind::kRefused) {
    count_reason(subject, VerdictKind::kRefused, result.refusal);
  }
  for (const PropertyResult& each : result.properties) {
    const VerdictKind kind = each.verdict.kind;
    ++by_property[{subject, each.property}][static_cast<std::size_t>(kind)];
    if (kind == VerdictKind::kVacuous || kind == VerdictKind::kDiscarded) {
      count_reason(property_name(each.property, tables), kind, each.verdict.message);
    }
  }
  const Subject* known = tables.subject(subject);
  const bool single = known && known->axes.empty();
  for (const TensorNumbers& each : result.tensors) {
    const std::string op(judged.value.problem.op->name);
    Power& caught = power[{op, each.tensor, judged.value.problem.dtype}];
    caught.limit.add(each.limit);
    caught.baseline.add(each.baseline_limit);
    const bool is_pooled = each.mean_square >= 0 && judged.origin.empty() &&
                           !is_failure(result.overall) && is_poolable(judged.value.problem);
    if (is_pooled) pools[{subject, each.tensor, judged.value.problem.dtype}].add(each.mean_square);
    ++tensors;
    if (!each.has_power) ++powerless_tensors;
    WorstRatio& worst = ratios[{op, each.tensor}];
    double& largest = single ? worst.single : worst.sharded;
    if (!(each.likely > largest)) continue;
    largest = each.likely;
    if (!single) worst.sharded_case = to_text(judged.value);
  }
  if (result.overall != VerdictKind::kRefused) coverage.add(judged.value);
}

std::uint64_t Tally::cases() const {
  return std::accumulate(kinds.begin(), kinds.end(), std::uint64_t{0});
}

std::uint64_t Tally::failing() const {
  std::uint64_t result = 0;
  for (int kind = 0; kind < kVerdictKinds; ++kind) {
    if (is_failure(static_cast<VerdictKind>(kind))) result += kinds[static_cast<std::size_t>(kind)];
  }
  return result;
}

std::uint64_t Tally::excesses() const {
  return static_cast<std::uint64_t>(std::count_if(
      pools.begin(), pools.end(), [](const auto& each) { return each.second.exceeds(); }));
}

std::uint64_t Tally::judged() const { return failing() + count(VerdictKind::kHolds); }

}  // namespace shardproof
