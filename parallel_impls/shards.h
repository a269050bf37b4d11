// Index lists from which subjects declare their shards, and what a case must look like to fit one.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "harness/run/subject.h"

namespace shardproof {

inline std::vector<Index> indices(Range range) {
  std::vector<Index> list(static_cast<std::size_t>(range.count));
  std::iota(list.begin(), list.end(), range.first);
  return list;
}

inline Shard whole(const TensorSpec& tensor) {
  Shard shard;
  for (int d = 0; d < tensor.shape.rank(); ++d) shard.push_back(indices({0, tensor.shape[d]}));
  return shard;
}

// [0, length) in `parts` nearly equal parts.
inline Partition even_partition(Index length, Index parts) {
  Partition partition;
  for (Index part = 0; part < parts; ++part) {
    partition.push_back(indices(even_part(length, parts, part)));
  }
  return partition;
}

// Why a mesh does not fit a subject that can be cut along `axes` only, or an empty string.
inline std::string foreign_axis(const Mesh& mesh, const std::vector<std::string_view>& axes) {
  for (const Axis& axis : mesh.axes) {
    if (axis.size == 1 || std::find(axes.begin(), axes.end(), axis.name) != axes.end()) continue;
    return "cannot be cut along the mesh axis " + axis.name;
  }
  return {};
}

// A cost that promises traffic and nothing else.
inline Cost traffic_only(std::vector<Traffic> traffic) {
  Cost cost;
  cost.traffic = std::move(traffic);
  return cost;
}

}  // namespace shardproof
