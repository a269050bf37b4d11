#include "harness/run/rank.h"

#include <fmt/format.h>

#include <stdexcept>

namespace shardproof {

Shape shape_of(const Shard& shard) {
  Shape shape;
  for (const auto& indices : shard) shape.append(static_cast<Index>(indices.size()));
  return shape;
}

const View& Rank::kept(std::string_view key) const {
  const auto found = kept_.find(key);
  if (found == kept_.end()) {
    throw std::out_of_range(fmt::format("nothing was kept as '{}'", key));
  }
  return found->second.view();
}

}  // namespace shardproof
