// Inputs: the whole input and upstream tensors of a problem in their storage types, made once
// per problem; ranks get their shards from them and are checked against them afterwards.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "harness/worlds/placed_rank.h"

namespace shardproof {

class Inputs {
 public:
  // Keeps what it has when the problem is the same as before.
  void prepare(const Problem& problem);

  // All tensors of the operator.
  const std::vector<TensorSpec>& specs() const { return specs_; }

  // Fills the inputs of the rank, which has its tensors.
  void fill(PlacedRank& rank) const;

  // Notes the first element that each rank changed of each input.
  void find_changes(const PlacedRank& rank, std::vector<Finding>& findings) const;

 private:
  std::optional<Problem> problem_;
  std::vector<TensorSpec> specs_;
  std::vector<std::vector<std::byte>> whole_;  // empty for outputs and gradients
};

bool is_input(const TensorSpec& spec);

}  // namespace shardproof
