// For tests of input values: a problem and a tensor of it.
#pragma once

#include "harness/masks/masks.h"
#include "harness/model/element.h"

namespace shardproof {

inline constexpr Role kRoles[] = {Role::kQuery,      Role::kKey,    Role::kValue, Role::kScoreBias,
                                  Role::kActivation, Role::kWeight, Role::kBias,  Role::kUpstream};

inline Problem problem_of(DataRecipe data, DType dtype = DType::kF32, std::uint64_t seed = 1) {
  Problem problem;
  problem.data = data;
  problem.dtype = dtype;
  problem.seed = seed;
  problem.q = 9;
  problem.kv = 11;
  problem.mask.mask = all_masks()[0];
  return problem;
}

// [batch, tokens, heads, dim]
inline TensorSpec spec_of(Role role, DType dtype = DType::kF32, Shape shape = {2, 11, 3, 8}) {
  TensorSpec spec;
  spec.name = "x";
  spec.kind = role == Role::kUpstream ? TensorKind::kUpstream : TensorKind::kInput;
  spec.role = role;
  spec.dtype = dtype;
  spec.shape = shape;
  const bool has_tokens = role != Role::kWeight && role != Role::kBias && role != Role::kScoreBias;
  spec.token_dimension = has_tokens ? 1 : -1;
  return spec;
}

inline std::size_t index_of(Index position) { return static_cast<std::size_t>(position); }

}  // namespace shardproof
