// Gather: puts outputs and gradients together from the ranks' shards, comparing what several ranks
// hold bit for bit and noting what was left unwritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/worlds/sim_rank.h"

namespace shardproof {

class Gather {
 public:
  // Tensor number `tensor` of the first `ranks` ranks, all of which have it.
  void add(const std::vector<std::unique_ptr<SimRank>>& ranks, int count, std::size_t tensor,
           const RunOptions& options, Outcome& outcome);

 private:
  // `bytes`: the elements of the part.
  void compare(const RankTensor& part, const std::byte* bytes, int rank, const ShardRun& shard_run,
               Outcome& outcome);

  // Reused room: the whole tensor in its storage type, which rank each element came from, and a
  // part that is not dense.
  std::vector<std::byte> whole_;
  std::vector<std::byte> room_;
  std::vector<std::int32_t> origin_;
  bool differs_ = false;  // whether the present shard was already found to differ
};

}  // namespace shardproof
