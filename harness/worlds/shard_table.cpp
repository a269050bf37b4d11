#include "harness/worlds/shard_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardproof {
namespace {

Problem without_edit(Problem problem) {
  problem.edit = Edit::kNone;
  problem.edit_at = 0;
  return problem;
}

}  // namespace

std::string ShardTable::prepare(const Case& value, const Subject& subject,
                                const std::vector<TensorSpec>& specs) {
  const Placement& placement = value.placement;
  if (Problem problem = without_edit(value.problem); !(problem == problem_)) {
    tables_.clear();
    problem_ = std::move(problem);
  }
  const auto known = std::find_if(tables_.begin(), tables_.end(), [&](const Table& table) {
    return table.shard == subject.shard && table.mesh == placement.mesh &&
           table.layout == placement.layout && table.stored == placement.stored;
  });
  current_ = static_cast<std::size_t>(known - tables_.begin());
  if (known != tables_.end()) return {};
  Table table{subject.shard, placement.mesh, placement.layout, placement.stored, specs.size(), {}};
  const int ranks = placement.mesh.ranks();
  table.parts.reserve(static_cast<std::size_t>(ranks) * specs.size());
  for (int rank = 0; rank < ranks; ++rank) {
    for (const TensorSpec& spec : specs) {
      std::string why;
      try {
        Shard shard = subject.shard(value, spec, rank);
        why = broken_rule(shard, spec.shape);
        if (why.empty()) table.parts.emplace_back(std::move(shard), spec.shape);
      } catch (const std::exception& error) {
        why = error.what();
      }
      if (!why.empty()) return fmt::format("rank {}: the shard of {} {}", rank, spec.name, why);
    }
  }
  tables_.push_back(std::move(table));
  return {};
}

}  // namespace shardproof
