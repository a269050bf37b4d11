// Layout: the one definition of which rank owns which token. For any length and any number of
// ranks it is a bijection global <-> (rank, local); a rank's tokens are sorted by global position.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "harness/model/shape.h"

namespace shardproof {

// contiguous: rank r owns part r of `ranks` nearly equal parts.
// zigzag: parts r and 2*ranks-1-r of 2*ranks nearly equal parts.
// striped: every token whose position is r modulo ranks.
enum class Layout { kContiguous, kZigzag, kStriped };

std::string_view name(Layout layout);
std::span<const Layout> all_layouts();
std::optional<Layout> layout_from(std::string_view name);

// Part `part` of `parts` of [0, length): the first length mod parts parts are one longer.
struct Range {
  Index first = 0;
  Index count = 0;
};
Range even_part(Index length, Index parts, Index part);

// The global positions that `rank` of `ranks` owns, increasing.
std::vector<Index> owned_positions(Layout layout, Index length, Index ranks, Index rank);

struct Owner {
  Index rank = 0;
  Index local = 0;

  bool operator==(const Owner&) const = default;
};

// Who owns global position `position`, computed without listing positions.
Owner owner_of(Layout layout, Index length, Index ranks, Index position);

}  // namespace shardproof
