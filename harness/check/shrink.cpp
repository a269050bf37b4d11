#include "harness/check/shrink.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "harness/check/shrink_trades.h"
#include "harness/check/smallest.h"

namespace shardproof {
namespace {

// To one of a few small cases: `ranks` along an axis, or along all, and one length for all extents,
// but one batch, and keys that all heads share. Choices are at their simplest, or stay.
bool jump_to(Smallest& s, bool simplest, std::string_view axis, Index length) {
  std::vector<Change> changes;
  for (const Field* field : s.fields()) {
    if (is_axis(*field)) {
      const bool is_cut = axis == "all" || field->name.ends_with(axis);
      changes.push_back({field, is_cut ? 2 : 1});
    } else if (s.is_extent(*field)) {
      const bool is_one = field->name == "batch" || field->name == "kv_heads";
      changes.push_back({field, is_one ? 1 : length});
    } else if (simplest) {
      changes.push_back({field, field->simplest});
    }
  }
  return s.change(changes, 0);
}

// To the first of them that fails, so that failures from everywhere meet.
bool jump(Smallest& s, bool simplest) {
  if (jump_to(s, simplest, "none", 1)) return true;
  for (std::string_view axis : kAxisNames) {
    if (simplest && jump_to(s, simplest, axis, 1)) return true;
  }
  for (Index length : {1, 2, 5}) {
    if (jump_to(s, simplest, "all", length)) return true;
  }
  return false;
}

bool simplify_seeds(Smallest& s) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    for (auto [data, schedule] : {std::pair{true, true}, {true, false}, {false, true}}) {
      Case candidate = s.value();
      if (data) candidate.problem.seed = seed;
      if (schedule) candidate.placement.schedule = seed;
      if (s.accept(candidate)) return true;
    }
  }
  return false;
}

// For failures that need luck: what one seed forbids another may allow.
bool simplify_with_other_seeds(Smallest& s) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    for (const Field* field : s.off_simplest()) {
      if (s.change({{field, field->simplest}}, seed)) return true;
    }
  }
  return false;
}

// One trait, or twice the ranks, in place of the luck of a seed.
bool trade_luck(Smallest& s) {
  const Case& value = s.value();
  if (value.problem.seed < kSeeds && value.placement.schedule < kSeeds) return false;
  for (const Field* field : s.fields()) {
    const bool is_value = is_axis(*field) || s.is_trait(*field) || field->name == "dtype";
    if (is_value && s.get(*field) < s.largest(*field) && s.change({{field, s.get(*field) + 1}}, 0))
      return true;
  }
  return false;
}

// Delta debugging (Zeller & Hildebrandt 2002): ever smaller groups of fields to their simplest.
void simplify_together(Smallest& s) {
  std::vector<const Field*> left = s.off_simplest();
  for (std::size_t group = left.size(); group > 0; group = group == 1 ? 0 : (group + 1) / 2) {
    for (std::size_t first = 0; first < left.size(); first += group) {
      std::vector<Change> changes;
      for (std::size_t i = first; i < std::min(first + group, left.size()); ++i) {
        changes.push_back({left[i], left[i]->simplest});
      }
      s.change(changes);
    }
    std::erase_if(left, [&](const Field* field) { return s.is_simplest(*field); });
    group = std::min(group, std::max<std::size_t>(left.size(), 1));
  }
}

// Later passes only look whether the next smaller value fails, and search on if so.
void lower(Smallest& s, const Field& field, bool first) {
  if (s.is_simplest(field) || s.change({{&field, field.simplest}})) return;
  if (!s.is_size(field)) {
    for (Index to = 0; to < s.get(field); ++to) s.change({{&field, to}});
    return;
  }
  if (first && s.is_extent(field)) {
    for (Index to : {2, 3}) s.change({{&field, to}});
  }
  const Index towards = s.get(field) > field.simplest ? -1 : 1;
  if (!first && !s.change({{&field, s.get(field) + towards}})) return;
  // Invariant: `passing` does not fail, as far as is known; the smallest value fails.
  Index passing = field.simplest;
  while (std::abs(s.get(field) - passing) > 1) {
    const Index middle = passing + (s.get(field) - passing) / 2;
    if (!s.change({{&field, middle}})) passing = middle;
    if (s.exhausted()) return;
  }
}

}  // namespace

Shrunk shrink(const Case& failing, const Subject& subject, const Vocabulary& vocabulary,
              const StillFails& still_fails, int most_evaluations) {
  Smallest smallest(failing, subject, vocabulary, still_fails, most_evaluations);
  smallest.prefer_world(vocabulary.worlds.front());  // the simulated one: it needs least
  if (!jump(smallest, true) && !jump(smallest, false)) simplify_seeds(smallest);
  simplify_together(smallest);
  for (bool first = true; !smallest.exhausted(); first = false) {
    const Case before = smallest.value();
    for (const Field* field : smallest.fields()) lower(smallest, *field, first);
    if (smallest.value() != before) continue;
    if (!trade_sizes(smallest) && !trade_choices(smallest) && !simplify_seeds(smallest) &&
        !simplify_with_other_seeds(smallest) && !trade_luck(smallest)) {
      break;
    }
  }
  return {smallest.value(), smallest.evaluations(), !smallest.exhausted()};
}

}  // namespace shardproof
