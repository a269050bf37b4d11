#include "harness/check/shrink.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <unordered_set>
#include <vector>

#include "harness/check/domain.h"

namespace shardproof {
namespace {

struct Change {
  const Field* field;
  Index to;
};

class Search {
 public:
  Search(const Case& failing, const Subject& subject, const Vocabulary& vocabulary,
         const StillFails& still_fails, int most_evaluations)
      : subject_(subject),
        vocabulary_(vocabulary),
        still_fails_(still_fails),
        most_evaluations_(most_evaluations),
        best_(failing) {
    tried_.insert(to_text(failing));
    for (const Field& field : all_fields()) {
      if (is_used(field, failing)) fields_.push_back(&field);
    }
    for (const Field* field : fields_) {
      ceilings_.push_back(std::max(get(*field), field->largest(false, vocabulary)));
    }
  }

  Shrunk run() {
    try_first_world();
    try_seeds(1);
    simplify_together();
    for (Case before; before != best_ && !exhausted();) {
      const bool first = before.problem.op == nullptr;
      before = best_;
      for (const Field* field : fields_) lower(*field, first);
      if (before == best_) trade_pairs();
      if (before == best_) try_seeds(4);
    }
    return {best_, evaluations_, !exhausted()};
  }

 private:
  bool exhausted() const { return evaluations_ >= most_evaluations_; }
  Index get(const Field& field) const { return field.get(best_, vocabulary_); }
  bool is_simplest(const Field& field) const { return get(field) == field.simplest; }
  bool is_size(const Field& field) const { return !is_choice(field, vocabulary_); }

  // What is to become small: first few fields off their simplest value, near it, then seeds.
  struct Cost {
    Index distance = 0;
    std::vector<Index> values;
    auto operator<=>(const Cost&) const = default;
  };

  Cost cost(const Case& value) const {
    constexpr Index kOff = 8;  // what it is worth to bring a field to its simplest value
    Cost result;
    for (const Field* field : fields_) {
      const Index away = std::abs(field->get(value, vocabulary_) - field->simplest);
      result.distance += away == 0 ? 0 : kOff + away;
      result.values.push_back(away);
    }
    result.values.push_back(static_cast<Index>(value.problem.seed >> 1));
    result.values.push_back(static_cast<Index>(value.placement.schedule >> 1));
    result.values.push_back(static_cast<Index>(value.problem.seed & 1));
    result.values.push_back(static_cast<Index>(value.placement.schedule & 1));
    return result;
  }

  // Takes `candidate` if it is smaller and still fails.
  bool accept(const Case& candidate) {
    if (exhausted() || cost(candidate) >= cost(best_)) return false;
    if (!broken_rule(candidate).empty() || !refusal(subject_, candidate).empty()) return false;
    if (!tried_.insert(to_text(candidate)).second) return false;
    ++evaluations_;
    if (!still_fails_(candidate)) return false;
    best_ = candidate;
    return true;
  }

  bool change(const std::vector<Change>& changes) {
    Case candidate = best_;
    for (const Change& each : changes) each.field->set(candidate, each.to, vocabulary_);
    settle(candidate, subject_);
    return accept(candidate);
  }

  // The first world of the table is the simulated one: it needs least and is fast.
  void try_first_world() {
    Case candidate = best_;
    candidate.placement.world = vocabulary_.worlds.front();
    if (!tried_.insert(to_text(candidate)).second) return;
    ++evaluations_;
    if (still_fails_(candidate)) best_ = candidate;
  }

  void try_seeds(std::uint64_t count) {
    for (std::uint64_t seed = 0; seed < count; ++seed) {
      Case candidate = best_;
      candidate.problem.seed = candidate.placement.schedule = seed;
      if (accept(candidate)) return;
      candidate = best_;
      candidate.problem.seed = seed;
      accept(candidate);
      candidate = best_;
      candidate.placement.schedule = seed;
      accept(candidate);
    }
  }

  // Delta debugging (Zeller & Hildebrandt 2002): ever smaller groups of fields to their simplest.
  void simplify_together() {
    std::vector<const Field*> left = off_simplest();
    for (std::size_t group = left.size(); group > 0; group = group == 1 ? 0 : (group + 1) / 2) {
      for (std::size_t first = 0; first < left.size(); first += group) {
        std::vector<Change> changes;
        for (std::size_t i = first; i < std::min(first + group, left.size()); ++i) {
          changes.push_back({left[i], left[i]->simplest});
        }
        change(changes);
      }
      std::erase_if(left, [&](const Field* field) { return is_simplest(*field); });
      group = std::min(group, std::max<std::size_t>(left.size(), 1));
    }
  }

  std::vector<const Field*> off_simplest() const {
    std::vector<const Field*> result;
    for (const Field* field : fields_) {
      if (!is_simplest(*field)) result.push_back(field);
    }
    return result;
  }

  // Later passes only look whether the next smaller value fails, and search on if so.
  void lower(const Field& field, bool first) {
    if (is_simplest(field) || change({{&field, field.simplest}})) return;
    if (!is_size(field)) {
      for (Index to = 0; to < get(field); ++to) change({{&field, to}});
      return;
    }
    const Index towards = get(field) > field.simplest ? -1 : 1;
    if (!first && !change({{&field, get(field) + towards}})) return;
    // Invariant: `passing` does not fail, as far as is known; the best value fails.
    Index passing = field.simplest;
    while (std::abs(get(field) - passing) > 1) {
      const Index middle = passing + (get(field) - passing) / 2;
      if (!change({{&field, middle}})) passing = middle;
      if (exhausted()) return;
    }
  }

  // Moves of two sizes that no sequence of single moves can make while the failure persists.
  void trade_pairs() {
    for (const Field* a : off_simplest()) {
      for (const Field* b : fields_) {
        if (a == b || !is_size(*a) || !is_size(*b)) continue;
        if (is_simplest(*b) ? move_to_peer(*a, *b)
                            : keep_difference(*a, *b) || keep_multiple(*a, *b) ||
                                  keep_sum(*a, *b) || keep_product(*a, *b)) {
          return;
        }
      }
    }
  }

  // Of two fields of the same kind that would do, the later one is kept, so that results agree.
  bool move_to_peer(const Field& a, const Field& b) {
    const bool peers = a.minimum == b.minimum && a.key != b.key && !a.placement && !b.placement &&
                       a.largest(false, vocabulary_) == b.largest(false, vocabulary_);
    return peers && &a < &b && change({{&a, b.simplest}, {&b, get(a)}});
  }

  bool keep_difference(const Field& a, const Field& b) {
    Index room = std::min(get(a) - a.simplest, get(b) - b.simplest);
    if (get(b) < b.simplest) room = get(b) - b.simplest;
    for (Index step : {room, room / 2, Index{1}}) {
      if (change({{&a, get(a) - step}, {&b, get(b) - step}})) return true;
    }
    return false;
  }

  bool keep_multiple(const Field& a, const Field& b) {
    if (get(b) <= 1 || get(a) % get(b) != 0) return false;
    const Index multiple = get(a) / get(b);
    for (Index to : {b.simplest, get(b) / 2, get(b) - 1}) {
      if (to > 0 && change({{&a, multiple * to}, {&b, to}})) return true;
    }
    return false;
  }

  bool keep_sum(const Field& a, const Field& b) {
    const Index step = get(a) - a.simplest;
    return step > 0 && get(b) + step <= ceiling(b) &&
           change({{&a, a.simplest}, {&b, get(b) + step}});
  }

  bool keep_product(const Field& a, const Field& b) {
    const Index product = get(a) * get(b);
    const auto root = static_cast<Index>(std::sqrt(static_cast<double>(product)));
    for (Index to : {root - 1, root, root + 1}) {
      if (to <= 0 || to >= get(a)) continue;
      for (Index with : {product / to, (product + to - 1) / to}) {
        if (with <= ceiling(b) && change({{&a, to}, {&b, with}})) return true;
      }
    }
    return false;
  }

  Index ceiling(const Field& field) const {
    const auto at = std::find(fields_.begin(), fields_.end(), &field) - fields_.begin();
    return ceilings_[static_cast<std::size_t>(at)];
  }

  const Subject& subject_;
  const Vocabulary& vocabulary_;
  const StillFails& still_fails_;
  const int most_evaluations_;
  Case best_;
  std::vector<const Field*> fields_;  // that the operator uses
  std::vector<Index> ceilings_;       // how far a trade may raise each
  std::unordered_set<std::string> tried_;
  int evaluations_ = 0;
};

}  // namespace

Shrunk shrink(const Case& failing, const Subject& subject, const Vocabulary& vocabulary,
              const StillFails& still_fails, int most_evaluations) {
  return Search(failing, subject, vocabulary, still_fails, most_evaluations).run();
}

}  // namespace shardproof
