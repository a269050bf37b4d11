#include "harness/worlds/shards.h"

#include <fmt/format.h>

#include <utility>

namespace shardproof {

std::string broken_rule(const Shard& shard, const Shape& whole) {
  if (static_cast<int>(shard.size()) != whole.rank()) {
    return fmt::format("has {} dimensions instead of {}", shard.size(), whole.rank());
  }
  for (int d = 0; d < whole.rank(); ++d) {
    for (Index i : shard[static_cast<std::size_t>(d)]) {
      if (i >= 0 && i < whole[d]) continue;
      return fmt::format("holds index {} of dimension {}, which has extent {}", i, d, whole[d]);
    }
  }
  return {};
}

Index global_position(const Shard& shard, const Shape& whole, Index local) {
  Index stride = 1;
  Index global = 0;
  for (int d = whole.rank() - 1; d >= 0; --d) {
    const auto& indices = shard[static_cast<std::size_t>(d)];
    const auto extent = static_cast<Index>(indices.size());
    global += stride * indices[static_cast<std::size_t>(local % extent)];
    local /= extent;
    stride *= whole[d];
  }
  return global;
}

PlacedShard::PlacedShard(Shard held, const Shape& whole)
    : indices(std::move(held)), shape(shape_of(indices)) {
  for_each_run(indices, whole, [this](Index local, Index global, Index count) {
    runs.push_back({local, global, count});
  });
}

}  // namespace shardproof
