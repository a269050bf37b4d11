#include "harness/check/smallest.h"

#include <algorithm>
#include <compare>
#include <cstdlib>

namespace shardproof {

// What is to become small: first few fields off their simplest value, near it, then those that are
// compared first, then seeds.
struct Smallest::Cost {
  Index distance = 0;
  std::vector<Index> values;

  auto operator<=>(const Cost&) const = default;
};

Smallest::Smallest(const Case& failing, const Subject& subject, const Vocabulary& vocabulary,
                   const StillFails& still_fails, int most_evaluations)
    : subject_(subject),
      vocabulary_(vocabulary),
      still_fails_(still_fails),
      most_evaluations_(most_evaluations),
      value_(failing) {
  tried_.insert(to_text(failing));
  for (const Field& field : all_fields()) {
    if (!is_used(field, failing)) continue;
    fields_.push_back(&field);
    ceilings_.push_back(std::max(get(field), largest(field)));
  }
}

std::vector<const Field*> Smallest::off_simplest() const {
  std::vector<const Field*> result;
  for (const Field* field : fields_) {
    if (!is_simplest(*field)) result.push_back(field);
  }
  return result;
}

Index Smallest::ceiling(const Field& field) const {
  const auto at = std::find(fields_.begin(), fields_.end(), &field) - fields_.begin();
  return ceilings_[static_cast<std::size_t>(at)];
}

// Choices of the problem count before sizes, and the last of them first: two keys are simpler than
// dropout, a bias is simpler than rotary positions. A layout counts less than ranks.
Smallest::Cost Smallest::cost(const Case& value) const {
  constexpr Index kOff = 8;    // what it is worth to bring a field to its simplest value
  constexpr Index kMask = 2;   // and a mask, which makes one token unlike another, more so
  constexpr Index kLuck = 16;  // and data or a schedule that only luck can draw
  Cost result;
  std::vector<Index> sizes, places;
  for (const Field* field : fields_) {
    const Index away = std::abs(field->get(value, vocabulary_) - field->simplest);
    result.distance += away == 0 ? 0 : kOff + away + (field->name == "mask" ? kMask : 0);
    (is_size(*field) ? sizes : field->placement ? places : result.values).push_back(away);
  }
  std::reverse(result.values.begin(), result.values.end());
  result.values.insert(result.values.end(), sizes.begin(), sizes.end());
  result.values.insert(result.values.end(), places.begin(), places.end());
  for (std::uint64_t seed : {value.problem.seed, value.placement.schedule}) {
    result.distance += seed < kSeeds ? 0 : kLuck;
  }
  for (std::uint64_t seed : {value.problem.seed >> 1, value.placement.schedule >> 1,
                             value.problem.seed & 1, value.placement.schedule & 1}) {
    result.values.push_back(static_cast<Index>(seed));
  }
  return result;
}

bool Smallest::fails(const Case& candidate) {
  if (!tried_.insert(to_text(candidate)).second) return false;
  ++evaluations_;
  return still_fails_(candidate);
}

bool Smallest::accept(const Case& candidate) {
  if (exhausted() || cost(candidate) >= cost(value_)) return false;
  if (!broken_rule(candidate).empty() || !refusal(subject_, candidate).empty()) return false;
  if (!fails(candidate)) return false;
  value_ = candidate;
  return true;
}

bool Smallest::change(const std::vector<Change>& changes, std::optional<std::uint64_t> seeds) {
  Case candidate = value_;
  if (seeds) candidate.problem.seed = candidate.placement.schedule = *seeds;
  for (const Change& each : changes) each.field->set(candidate, each.to, vocabulary_);
  settle(candidate, subject_);
  return accept(candidate);
}

void Smallest::prefer_world(std::string_view world) {
  Case candidate = value_;
  candidate.placement.world = world;
  if (fails(candidate)) value_ = candidate;
}

}  // namespace shardproof
