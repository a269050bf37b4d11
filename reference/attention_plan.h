// AttentionPlan: the order in which the attention reference visits queries and keys. Queries and
// keys that one rank (or ring step) holds stand together, so that partial results per block are
// those of contiguous ranges; within a block positions increase, so that masks leave short ranges.
#pragma once

#include <vector>

#include "harness/model/contract.h"
#include "harness/model/problem.h"

namespace shardproof {

// A permutation of [0, length) cut into blocks. Empty blocks are left out.
struct BlockOrder {
  std::vector<Index> global;  // position in the plan -> position in the tensor
  std::vector<Index> start;   // of each block, and the length at the end

  BlockOrder(const Partition& partition, Index length);
  Index blocks() const { return static_cast<Index>(start.size()) - 1; }
  Index length() const { return static_cast<Index>(global.size()); }
};

struct AttentionPlan {
  BlockOrder queries;
  BlockOrder keys;

  AttentionPlan(const Problem& problem, const Partitions& partitions)
      : queries(partitions.queries, problem.q), keys(partitions.keys, problem.kv) {}
};

// Which keys the queries of one batch entry see, in the plan's order.
struct BatchMask {
  std::vector<unsigned char> visible;  // [queries, keys]
  std::vector<Index> queries_of_key;   // how many queries see it

  BatchMask(const Problem& problem, const AttentionPlan& plan, Index batch);
};

// The part of a key block between the first and the last key that some query of a tile sees.
struct Segment {
  Index block;
  Index first;
  Index last;  // one past

  Index count() const { return last - first; }
};

// For rows [first_row, first_row + rows) of the mask. Blocks that are hidden altogether are left
// out: nothing of them is ever multiplied.
std::vector<Segment> visible_segments(const AttentionPlan& plan, const BatchMask& mask,
                                      Index first_row, Index rows);

}  // namespace shardproof
