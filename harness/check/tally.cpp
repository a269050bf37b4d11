#include "harness/check/tally.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <numeric>

#include "harness/model/element.h"
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

// Whether a verdict says something about the case.
bool says_something(VerdictKind kind) {
  return kind != VerdictKind::kDiscarded && kind != VerdictKind::kRefused;
}

bool any_said(const KindCounts& counts) {
  for (int kind = 0; kind < kVerdictKinds; ++kind) {
    const bool seen = counts[static_cast<std::size_t>(kind)] > 0;
    if (seen && says_something(static_cast<VerdictKind>(kind))) return true;
  }
  return false;
}

std::uint64_t digest_of(const Judged& judged) {
  const CaseResult& result = judged.result;
  std::uint64_t digest = mix(judged.number + (judged.origin.empty() ? 0 : 1ULL << 63));
  digest = mix(digest + static_cast<std::uint64_t>(result.overall));
  for (const PropertyResult& each : result.properties) {
    digest = mix(digest + static_cast<std::uint64_t>(each.property + 1));
    digest = mix(digest + static_cast<std::uint64_t>(each.verdict.kind));
  }
  for (const TensorNumbers& each : result.tensors) {
    digest = mix(digest + std::bit_cast<std::uint64_t>(each.likely));
    digest = mix(digest + std::bit_cast<std::uint64_t>(each.baseline_limit));
  }
  return digest;
}

// Of equal ones that whose text comes first.
void raise(WorstRatio& worst, const WorstRatio& other) {
  worst.single = std::max(worst.single, other.single);
  const bool is_first = other.sharded == worst.sharded && other.sharded_case < worst.sharded_case;
  if (!(other.sharded > worst.sharded || is_first)) return;
  worst.sharded = other.sharded;
  worst.sharded_case = other.sharded_case;
}

void add_counts(KindCounts& counts, const KindCounts& others) {
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += others[i];
}

}  // namespace

bool Failure::is_before(const Failure& other) const {
  if (origin.empty() != other.origin.empty()) return !origin.empty();
  return number < other.number;
}

Tally::Tally(const Domain& domain, const Tables& all)
    : tables(all), coverage(domain), subjects_(domain.subjects), world_(domain.world) {}

void Tally::add(const Judged& judged) {
  const CaseResult& result = judged.result;
  const std::string& subject = judged.value.placement.subject;
  ++kinds[static_cast<std::size_t>(result.overall)];
  digest += digest_of(judged);
  if (!judged.origin.empty()) ++stored;
  if (result.overall == VerdictKind::kRefused) {
    count_reason(VerdictKind::kRefused, subject, result.refusal);
  }
  for (const PropertyResult& each : result.properties) {
    const VerdictKind kind = each.verdict.kind;
    ++by_property[{subject, each.property}][static_cast<std::size_t>(kind)];
    if (kind == VerdictKind::kVacuous || kind == VerdictKind::kDiscarded) {
      count_reason(kind, property_name(each.property, tables), each.verdict.message);
    }
  }
  add_tensors(judged);
  if (result.overall != VerdictKind::kRefused) {
    coverage.add(judged.value, judged.origin.empty() ? judged.number + 1 : 0);
  }
}

void Tally::join(const Tally& other) {
  seconds += other.seconds;
  jobs = std::max(jobs, other.jobs);
  interrupted = interrupted || other.interrupted;
  stored += other.stored;
  add_counts(kinds, other.kinds);
  for (const auto& [key, counts] : other.by_property) add_counts(by_property[key], counts);
  for (const auto& [reason, count] : other.reasons) reasons[reason] += count;
  for (const auto& [key, worst] : other.ratios) raise(ratios[key], worst);
  for (const auto& [key, each] : other.power) {
    power[key].limit.join(each.limit.counts());
    power[key].baseline.join(each.baseline.counts());
  }
  for (const auto& [key, pool] : other.pools) pools[key].join(pool.cases(), pool.sum());
  tensors += other.tensors;
  powerless_tensors += other.powerless_tensors;
  coverage.join(other.coverage.first());
  digest += other.digest;
  failures_left_out += other.failures_left_out;
  for (const Failure& failure : other.failures) join_failure(failure);
  std::stable_sort(failures.begin(), failures.end(),
                   [](const Failure& a, const Failure& b) { return a.is_before(b); });
}

void Tally::join_failure(const Failure& failure) {
  const auto known = std::find_if(failures.begin(), failures.end(), [&](const Failure& each) {
    return each.signature == failure.signature;
  });
  if (known == failures.end()) {
    failures.push_back(failure);
    return;
  }
  const std::uint64_t times = known->times + failure.times;
  if (failure.is_before(*known)) *known = failure;
  known->times = times;
}

void Tally::count_reason(VerdictKind kind, std::string_view who, std::string_view why) {
  std::string reason(name(kind));
  reason.append(" / ").append(who).append(": ").append(without_numbers(why));
  const auto known = reasons.find(reason);
  if (known != reasons.end()) {
    ++known->second;
  } else if (reasons.size() < kMostReasons) {
    reasons[reason] = 1;
  }
}

void Tally::add_tensors(const Judged& judged) {
  const CaseResult& result = judged.result;
  const std::string& subject = judged.value.placement.subject;
  const Subject* known = tables.subject(subject);
  const bool single = known && known->axes.empty();
  const std::string op(judged.value.problem.op->name);
  for (const TensorNumbers& each : result.tensors) {
    Power& caught = power[{op, each.tensor, judged.value.problem.dtype}];
    caught.limit.add(each.limit);
    caught.baseline.add(each.baseline_limit);
    const bool is_pooled = each.mean_square >= 0 && judged.origin.empty() &&
                           !is_failure(result.overall) && is_poolable(judged.value.problem);
    if (is_pooled) pools[{subject, each.tensor, judged.value.problem.dtype}].add(each.mean_square);
    ++tensors;
    if (each.sharpness == Sharpness::kBlunt) ++powerless_tensors;
    WorstRatio& worst = ratios[{op, each.tensor}];
    const double largest = single ? worst.single : worst.sharded;
    if (!(each.likely > 0 && each.likely >= largest)) continue;
    raise(worst, single ? WorstRatio{0, each.likely, ""}
                        : WorstRatio{each.likely, 0, to_text(judged.value)});
  }
}

std::vector<std::string> Tally::idle_properties() const {
  std::map<int, bool> spoke;
  for (const auto& [key, counts] : by_property) {
    spoke[key.second] = spoke[key.second] || any_said(counts);
  }
  std::vector<std::string> result;
  for (const auto& [property, has_spoken] : spoke) {
    if (has_spoken || property == PropertyResult::kRun) continue;
    const Property& idle = *tables.properties.at(static_cast<std::size_t>(property));
    const bool belongs_elsewhere = !idle.hunted_in.empty() && idle.hunted_in != world_;
    if (!belongs_elsewhere) result.emplace_back(idle.name);
  }
  return result;
}

std::vector<std::string> Tally::idle_subjects() const {
  std::vector<std::string> result;
  for (const Subject* subject : subjects_) {
    const bool spoke = std::any_of(by_property.begin(), by_property.end(), [&](const auto& each) {
      return each.first.first == subject->name && any_said(each.second);
    });
    if (!spoke) result.emplace_back(subject->name);
  }
  return result;
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
