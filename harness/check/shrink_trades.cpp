#include "harness/check/shrink_trades.h"

#include <algorithm>
#include <cmath>

namespace shardproof {
namespace {

bool are_peers(const Smallest& s, const Field& a, const Field& b) {
  return a.minimum == b.minimum && a.key != b.key && !a.placement && !b.placement &&
         s.largest(a) == s.largest(b);
}

// Of two fields of the same kind that would do, the later one is kept, so that results agree.
bool move_to_peer(Smallest& s, const Field& a, const Field& b) {
  return &a < &b && s.change({{&a, b.simplest}, {&b, s.get(a)}});
}

bool keep_difference(Smallest& s, const Field& a, const Field& b) {
  if (a.placement != b.placement) return false;
  Index room = std::min(s.get(a) - a.simplest, s.get(b) - b.simplest);
  if (s.get(b) < b.simplest) room = s.get(b) - b.simplest;
  for (Index step : {room, Index{1}}) {
    if (s.change({{&a, s.get(a) - step}, {&b, s.get(b) - step}})) return true;
  }
  return false;
}

bool keep_multiple(Smallest& s, const Field& a, const Field& b) {
  if (s.get(b) <= 1 || s.get(a) % s.get(b) != 0) return false;
  const Index multiple = s.get(a) / s.get(b);
  for (Index times : {multiple / 2, multiple - 1}) {
    if (times > 0 && s.change({{&a, times * s.get(b)}})) return true;
  }
  for (Index to : {b.simplest, s.get(b) / 2, s.get(b) - 1}) {
    if (to > 0 && s.change({{&a, multiple * to}, {&b, to}})) return true;
  }
  return false;
}

bool keep_sum(Smallest& s, const Field& a, const Field& b) {
  if (is_axis(a) && s.get(a) > 2 && s.change({{&a, s.get(a) - 1}, {&b, s.get(b) + 1}})) return true;
  const Index step = s.get(a) - a.simplest;
  return !a.placement && step > 0 && s.get(b) + step <= s.ceiling(b) &&
         s.change({{&a, a.simplest}, {&b, s.get(b) + step}});
}

bool keep_product(Smallest& s, const Field& a, const Field& b) {
  if (a.placement || b.placement || s.get(a) <= 3) return false;
  const Index product = s.get(a) * s.get(b);
  const auto root = static_cast<Index>(std::sqrt(static_cast<double>(product)));
  for (Index to : {root - 1, root, root + 1}) {
    if (to <= 0 || to >= s.get(a)) continue;
    for (Index with : {product / to, (product + to - 1) / to}) {
      if (with <= s.ceiling(b) && s.change({{&a, to}, {&b, with}})) return true;
    }
  }
  return false;
}

// Whether `b` one further from its simplest value may stand for `a`.
bool may_replace(const Smallest& s, const Field& a, const Field& b, bool only_trait) {
  constexpr Index kLong = 64;  // extents drawn so long count tokens, hidden units or words
  if (is_axis(a) && b.name == "layout") return s.is_simplest(b);
  if (is_axis(b) && &a != &b && (is_axis(a) || a.name == "layout")) return true;
  if (!s.is_trait(a)) return false;
  if (!s.is_simplest(b)) return is_axis(b);
  return s.is_trait(b) || (s.is_extent(b) && (!only_trait || s.largest(b) >= kLong));
}

bool raise_with_smaller_extents(Smallest& s, const Field& choice) {
  for (Index to = s.get(choice) + 1; to <= s.largest(choice); ++to) {
    std::vector<Change> changes{{&choice, to}};
    for (const Field* each : s.off_simplest()) {
      if (s.is_extent(*each)) changes.push_back({each, std::min(Index{2}, s.get(*each) - 1)});
    }
    if (changes.size() > 1 && s.change(changes)) return true;
  }
  return false;
}

}  // namespace

bool trade_sizes(Smallest& s) {
  for (const Field* a : s.off_simplest()) {
    for (const Field* b : s.fields()) {
      if (a == b || !s.is_size(*a) || !s.is_size(*b)) continue;
      const bool peers = are_peers(s, *a, *b);
      if (s.is_simplest(*b) ? peers && (move_to_peer(s, *a, *b) || keep_product(s, *a, *b))
                            : keep_difference(s, *a, *b) || keep_multiple(s, *a, *b) ||
                                  keep_sum(s, *a, *b) || keep_product(s, *a, *b)) {
        return true;
      }
    }
  }
  return false;
}

bool trade_choices(Smallest& s) {
  const std::vector<const Field*> off = s.off_simplest();
  const auto traits =
      std::count_if(off.begin(), off.end(), [&](auto* each) { return s.is_trait(*each); });
  for (const Field* a : off) {
    for (const Field* b : s.fields()) {
      if (!may_replace(s, *a, *b, traits == 1)) continue;
      if (s.change({{a, a->simplest}, {b, s.get(*b) + 1}})) return true;
    }
    const bool has_values = s.is_trait(*a) || a->name == "dtype";
    if (has_values && raise_with_smaller_extents(s, *a)) return true;
  }
  return false;
}

}  // namespace shardproof
