// AttentionKernel: a plugin's attention of a block of queries to a block of keys, called on a rank.
// What the plugin writes are work tensors of that call alone, copied when it has returned: what it
// writes later reaches nobody.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/plugin/shardproof_plugin.h"
#include "parallel_impls/attention_tensors.h"

namespace shardproof {

// Which pairs of a block are visible, a byte each, [batch, queries, keys], and where its tokens
// lie.
struct BlockMask {
  std::vector<std::uint8_t> visible;
  std::vector<Index> query_positions;
  std::vector<Index> key_positions;
  bool any = false;
  bool all = false;
};
BlockMask block_mask(const Problem& problem, const std::vector<Chunk>& queries,
                     const std::vector<Chunk>& keys);

class AttentionKernel {
 public:
  AttentionKernel(Rank& rank, const shardproof_subject& subject) : rank_(rank), subject_(subject) {}

  // [batch, tokens, heads, dim_v] of `out_type` and [batch, heads, tokens].
  struct Block {
    Tensor out;
    Tensor lse;
  };
  // No extent of the block may be 0.
  Block forward(const QueryBlock& queries, const KeyBlock& keys, const BlockMask& mask,
                DType out_type) const;

  // Adds the block's share to the gradients, or stores it where it is all there is. `out`, of all
  // blocks, is as the rank returned it.
  void backward(const QueryBlock& queries, const KeyBlock& keys, const BlockMask& mask,
                const View& out, const Upstream& upstream, const AttentionGradients& gradients,
                bool is_all) const;

 private:
  // Local heads that read local key/value heads by the rule of shardproof_attention.
  struct HeadGroup {
    Range query;
    Range kv;
  };
  static std::vector<HeadGroup> regular_groups(const Heads& heads);

  class Call;
  Tensor bias_of_block(const QueryBlock& queries, const KeyBlock& keys) const;
  void add_bias_gradient(const QueryBlock& queries, const KeyBlock& keys, const HeadGroup& group,
                         const View& share, const View& sum) const;

  Rank& rank_;
  const shardproof_subject& subject_;
};

// Attention of blocks one after another, merged by lse: out = sum of exp(lse_block - lse) out_block
// (Liu et al. 2023). Starts with no keys: out 0, lse -inf.
class MergedBlocks {
 public:
  // `like`: the queries' [batch, tokens, heads, dim].
  MergedBlocks(Rank& rank, const View& like, Index dim_v);

  void add(const AttentionKernel::Block& block);
  void store(const View& out, const View& lse) const;

 private:
  Rank& rank_;
  Tensor out_;
  Tensor lse_;
};

}  // namespace shardproof
