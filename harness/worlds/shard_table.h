// ShardTable: which part of each tensor each rank holds, as the subject declares it. A problem is
// run several times with other edits and schedules, and on a few other meshes: what was worked out
// for it is kept until the next problem.
#pragma once

#include <string>
#include <vector>

#include "harness/run/subject.h"
#include "harness/worlds/shards.h"

namespace shardproof {

class ShardTable {
 public:
  // Makes at() answer for this case, whose tensors are `specs`. Returns what is wrong with the
  // sharding, or an empty string.
  std::string prepare(const Case& value, const Subject& subject,
                      const std::vector<TensorSpec>& specs);

  const PlacedShard& at(int rank, std::size_t tensor) const {
    const Table& table = tables_[current_];
    return table.parts[static_cast<std::size_t>(rank) * table.tensors + tensor];
  }

 private:
  struct Table {
    decltype(Subject::shard) shard = nullptr;
    Mesh mesh;
    Layout layout = Layout::kContiguous;
    Index stored = 0;
    std::size_t tensors = 0;
    std::vector<PlacedShard> parts;  // tensor by tensor, rank by rank
  };

  Problem problem_;  // without its edit
  std::vector<Table> tables_;
  std::size_t current_ = 0;
};

}  // namespace shardproof
