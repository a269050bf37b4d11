// Gather: puts outputs and gradients together from the ranks' shards, comparing what several ranks
// hold bit for bit and noting what was left unwritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harness/worlds/placed_rank.h"

namespace shardproof {

// What one rank holds of a tensor.
struct GatheredPart {
  const PlacedShard* part = nullptr;
  View data;
};

class Gather {
 public:
  // The parts of all ranks of one tensor.
  void add(const TensorSpec& spec, std::span<const GatheredPart> parts, const RunOptions& options,
           Outcome& outcome);

 private:
  // `bytes`: the elements of the part.
  void compare(const TensorSpec& spec, const std::byte* bytes, int rank, const ShardRun& shard_run,
               Outcome& outcome);

  // Reused room: the whole tensor in its storage type, which rank each element came from, and a
  // part that is not dense.
  std::vector<std::byte> whole_;
  std::vector<std::byte> room_;
  std::vector<std::int32_t> origin_;
  bool differs_ = false;  // whether the present shard was already found to differ
};

}  // namespace shardproof
