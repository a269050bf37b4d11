// What tensor-parallel mlps have in common: w1 and wg cut by columns, w2 by rows along "tp", so
// that an activation never needs another rank's hidden unit.
#pragma once

#include "parallel_impls/hidden_units.h"

namespace shardproof {

// From kept activations; stores every gradient.
inline void column_row_backward(Rank& rank) {
  const Tensor dx = hidden_units_backward(rank);
  rank.along("tp").all_reduce(dx);
  rank.device().copy(dx, rank.get("dx"));
}

inline Shard column_row_shard(const Case& value, const TensorSpec& tensor, int rank) {
  const Mesh& mesh = value.placement.mesh;
  const std::vector<Index> mine =
      indices(even_part(value.problem.hidden, mesh.size("tp"), mesh.coordinate(rank, "tp")));
  Shard held = whole(tensor);
  const std::string_view name = tensor.name;
  const auto is = [&](std::string_view input) { return name == input || name.substr(1) == input; };
  if (is("w1") || is("wg")) held[1] = mine;
  if (is("b1") || is("bg")) held[0] = mine;
  if (is("w2")) held[0] = mine;
  return held;
}

inline Cost column_row_cost(const Case& value, int) {
  const Problem& problem = value.problem;
  const auto bytes = static_cast<Index>(storage_bytes(accumulator_of(problem.dtype)));
  return traffic_only({
      {Phase::kForward, "all_reduce", "tp", 1, problem.tokens * problem.outputs * bytes},
      {Phase::kBackward, "all_reduce", "tp", 1, problem.tokens * problem.features * bytes},
  });
}

}  // namespace shardproof
