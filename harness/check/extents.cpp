#include "harness/check/extents.h"

#include <algorithm>
#include <vector>

#include "harness/model/operator.h"

namespace shardproof {
namespace {

// Whether it is a number of the problem, on which the arithmetic depends.
bool is_extent(const FieldDomain& each, const Case& value) {
  const Field& field = *each.field;
  return !each.is_choice && !field.placement && field.key != "mask" && is_used(field, value);
}

// Halves the longest extent but the pinned ones, down to `least`, until the arithmetic is little.
void halve(Case& value, const Domain& domain, double work, Index least,
           const std::vector<const Field*>& pinned) {
  const auto is_pinned = [&](const Field* field) {
    return std::find(pinned.begin(), pinned.end(), field) != pinned.end();
  };
  while (value.problem.op->work(value.problem) > work) {
    const FieldDomain* longest = nullptr;
    Index most = least;
    for (const FieldDomain& each : domain.fields) {
      if (!is_extent(each, value) || is_pinned(each.field)) continue;
      const Index extent = each.field->get(value, domain.vocabulary);
      if (extent <= most || extent / 2 < each.minimum) continue;
      most = extent;
      longest = &each;
    }
    if (longest == nullptr) return;
    longest->field->set(value, most / 2, domain.vocabulary);
  }
}

// A number around which tiles, vectors or types end, from `first` to `last`.
Index draw_edge(Index first, Index last, std::uint64_t random) {
  std::vector<Index> edges;
  for (Index tile = 4; tile <= last; tile *= 2) {
    for (Index edge : {tile - 1, tile, tile + 1, tile + tile / 2 - 1}) {
      if (edge >= first && edge <= last) edges.push_back(edge);
    }
  }
  return edges.empty() ? first : edges[random % edges.size()];
}

}  // namespace

void make_distinct(Case& value, const Domain& domain) {
  std::vector<Index> used;
  for (const FieldDomain& each : domain.fields) {
    if (!is_extent(each, value)) continue;
    const Field& field = *each.field;
    Index extent = field.get(value, domain.vocabulary);
    if (extent <= 1) continue;
    const auto taken = [&] { return std::find(used.begin(), used.end(), extent) != used.end(); };
    for (Index tries = each.maximum; taken() && tries > 0; --tries) {
      extent = extent < each.maximum ? extent + 1 : 2;
    }
    used.push_back(extent);
    field.set(value, extent, domain.vocabulary);
  }
}

void make_little(Case& value, const Domain& domain, double work) {
  halve(value, domain, work, 2, {});
}

void make_long(Case& value, const Domain& domain, const std::function<std::uint64_t()>& random) {
  constexpr double kWork = 1 << 16;
  std::vector<const FieldDomain*> candidates;
  for (const FieldDomain& each : domain.fields) {
    if (is_extent(each, value) && each.field->longest > each.maximum) candidates.push_back(&each);
  }
  if (candidates.empty()) return;
  std::vector<const Field*> pinned;
  for (std::uint64_t left = random() % 3 == 0 ? 2 : 1; left > 0; --left) {
    const FieldDomain& each = *candidates[random() % candidates.size()];
    each.field->set(value, draw_edge(each.maximum, each.field->longest, random()),
                    domain.vocabulary);
    pinned.push_back(each.field);
  }
  halve(value, domain, kWork, 2, pinned);
  halve(value, domain, kWork, 1, pinned);
  halve(value, domain, kWork, 1, {pinned.front()});
  halve(value, domain, kWork, 1, {});
}

}  // namespace shardproof
