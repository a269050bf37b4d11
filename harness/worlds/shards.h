// Shards: how a rank's part of a tensor lies inside the whole. Both are row-major; the part is
// copied and compared in runs that are contiguous on both sides.
#pragma once

#include <string>
#include <vector>

#include "harness/run/rank.h"

namespace shardproof {

// Which rule the shard of a tensor of shape `whole` breaks, or an empty string: one list per
// dimension, every index inside its extent.
std::string broken_rule(const Shard& shard, const Shape& whole);

// The global row-major position of the element at local row-major position `local`.
Index global_position(const Shard& shard, const Shape& whole, Index local);

// Calls visit(local, global, count) for every run, by increasing local position.
template <typename Visit>
void for_each_run(const Shard& shard, const Shape& whole, Visit visit) {
  // Trailing dimensions that are held in full are part of the run.
  int split = whole.rank() - 1;
  Index block = 1;
  const auto is_full = [&](int dimension) {
    const auto& indices = shard[static_cast<std::size_t>(dimension)];
    if (static_cast<Index>(indices.size()) != whole[dimension]) return false;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] != static_cast<Index>(i)) return false;
    }
    return true;
  };
  while (split >= 0 && is_full(split)) block *= whole[split--];
  if (split < 0) {
    if (block > 0) visit(Index{0}, Index{0}, block);
    return;
  }
  const auto& indices = shard[static_cast<std::size_t>(split)];
  const Index row = static_cast<Index>(indices.size()) * block;
  const Index count = shape_of(shard).elements();
  for (Index local = 0; local < count; local += row) {
    const Index base = global_position(shard, whole, local) - indices[0] * block;
    std::size_t end = 0;
    for (std::size_t first = 0; first < indices.size(); first = end) {
      end = first + 1;
      while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
      visit(local + static_cast<Index>(first) * block, base + indices[first] * block,
            static_cast<Index>(end - first) * block);
    }
  }
}

// Elements that are contiguous in the part and in the whole.
struct ShardRun {
  Index local = 0;
  Index global = 0;
  Index count = 0;
};

// A rank's part of a tensor and where it lies.
struct PlacedShard {
  PlacedShard(Shard held, const Shape& whole);

  Shard indices;
  Shape shape;
  std::vector<ShardRun> runs;
};

}  // namespace shardproof
