#include "harness/model/layout.h"

#include <algorithm>
#include <array>

namespace shardproof {
namespace {

constexpr std::array<Layout, 3> kAll{Layout::kContiguous, Layout::kZigzag, Layout::kStriped};
constexpr std::array<std::string_view, 3> kNames{"contiguous", "zigzag", "striped"};

// The part that holds `position` when [0, length) is cut into `parts` parts.
Index part_of(Index length, Index parts, Index position) {
  const Index small = length / parts;
  const Index large_end = (length % parts) * (small + 1);
  if (position < large_end) return position / (small + 1);
  return length % parts + (position - large_end) / small;
}

void append(std::vector<Index>& positions, Range range) {
  for (Index i = 0; i < range.count; ++i) positions.push_back(range.first + i);
}

}  // namespace

std::string_view name(Layout layout) { return kNames[static_cast<std::size_t>(layout)]; }

std::span<const Layout> all_layouts() { return kAll; }

std::optional<Layout> layout_from(std::string_view wanted) {
  for (Layout layout : kAll) {
    if (name(layout) == wanted) return layout;
  }
  return std::nullopt;
}

Range even_part(Index length, Index parts, Index part) {
  const Index small = length / parts;
  const Index larger = length % parts;
  return {part * small + std::min(part, larger), small + (part < larger ? 1 : 0)};
}

std::vector<Index> owned_positions(Layout layout, Index length, Index ranks, Index rank) {
  std::vector<Index> result;
  result.reserve(static_cast<std::size_t>(length / ranks + 2));
  switch (layout) {
    case Layout::kContiguous:
      append(result, even_part(length, ranks, rank));
      break;
    case Layout::kZigzag:
      append(result, even_part(length, 2 * ranks, rank));
      append(result, even_part(length, 2 * ranks, 2 * ranks - 1 - rank));
      break;
    case Layout::kStriped:
      for (Index i = rank; i < length; i += ranks) result.push_back(i);
      break;
  }
  return result;
}

Owner owner_of(Layout layout, Index length, Index ranks, Index position) {
  if (layout == Layout::kStriped) return {position % ranks, position / ranks};
  if (layout == Layout::kContiguous) {
    const Index rank = part_of(length, ranks, position);
    return {rank, position - even_part(length, ranks, rank).first};
  }
  const Index part = part_of(length, 2 * ranks, position);
  const Index local = position - even_part(length, 2 * ranks, part).first;
  if (part < ranks) return {part, local};
  const Index rank = 2 * ranks - 1 - part;
  return {rank, even_part(length, 2 * ranks, rank).count + local};
}

}  // namespace shardproof
