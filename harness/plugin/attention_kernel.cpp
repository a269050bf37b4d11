#include "harness/plugin/attention_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/plugin/kernels.h"
#include "parallel_impls/dense.h"

namespace shardproof {

BlockMask block_mask(const Problem& problem, const std::vector<Chunk>& queries,
                     const std::vector<Chunk>& keys) {
  BlockMask mask{{}, positions_of(queries), positions_of(keys), false, true};
  const MaskArguments arguments = mask_arguments(problem);
  const auto predicate = problem.mask.mask->visible;
  mask.visible.reserve(static_cast<std::size_t>(problem.batch) * mask.query_positions.size() *
                       mask.key_positions.size());
  for (Index batch = 0; batch < problem.batch; ++batch) {
    for (Index query : mask.query_positions) {
      for (Index key : mask.key_positions) {
        const bool seen = predicate(arguments, batch, query, key);
        mask.visible.push_back(seen ? 1 : 0);
        mask.any = mask.any || seen;
        mask.all = mask.all && seen;
      }
    }
  }
  return mask;
}

// One call of the plugin's for some of the heads: its DLTensors and what they borrow from.
class AttentionKernel::Call {
 public:
  Call(const AttentionKernel& kernel, const QueryBlock& queries, const KeyBlock& keys,
       const BlockMask& mask, const Tensor& bias, const HeadGroup& group)
      : rank_(kernel.rank_), takes_any_(kernel.subject_.any_strides != 0), group_(group) {
    block.q = lend(of_queries(queries.q, 2));
    block.k = lend(keys.k.slice(2, group.kv.first, group.kv.count));
    block.v = lend(keys.v.slice(2, group.kv.first, group.kv.count));
    if (bias) block.bias = lend(of_queries(bias, 0));
    block.visible = mask.visible.data();
    block.query_positions = mask.query_positions.data();
    block.key_positions = mask.key_positions.data();
    block.every_pair_visible = mask.all;
    block.scale = effective_scale(rank_.problem());
    block.softcap = effective_softcap(rank_.problem());
  }

  // The heads of the call.
  View of_queries(const View& tensor, int dimension) const {
    return tensor.slice(dimension, group_.query.first, group_.query.count);
  }

  DLTensor lend(const View& view) {
    views_[used_] = takes_any_ ? view : dense_of(rank_, view, rooms_[used_]);
    return views_[used_++].dlpack();
  }

  shardproof_attention block{};

 private:
  Rank& rank_;
  bool takes_any_;
  HeadGroup group_;
  std::array<View, 12> views_;
  std::array<Tensor, 12> rooms_;
  std::size_t used_ = 0;
};

AttentionKernel::Block AttentionKernel::forward(const QueryBlock& queries, const KeyBlock& keys,
                                                const BlockMask& mask, DType out_type) const {
  const Shape& q = queries.q.shape;
  const DType type = accumulator_of(rank_.problem().dtype);
  const auto make = [&](Index heads) {
    return Block{rank_.make(out_type, {q[0], q[1], heads, keys.v.shape[3]}),
                 rank_.make(type, {q[0], heads, q[1]})};
  };
  const Tensor bias = bias_of_block(queries, keys);
  const auto compute = [&](const HeadGroup& group) {
    Block block = make(group.query.count);
    Call call(*this, queries, keys, mask, bias, group);
    call.block.out = call.lend(block.out);
    call.block.lse = call.lend(block.lse);
    expect_success(subject_.attention_forward(&call.block), "attention_forward");
    return block;
  };
  const std::vector<HeadGroup> groups = regular_groups(queries.heads);
  if (groups.size() == 1) return compute(groups.front());
  Block whole = make(q[2]);
  for (const HeadGroup& group : groups) {
    const Block part = compute(group);
    const auto [first, count] = group.query;
    rank_.device().copy(part.out, whole.out.view().slice(2, first, count));
    rank_.device().copy(part.lse, whole.lse.view().slice(1, first, count));
  }
  return whole;
}

void AttentionKernel::backward(const QueryBlock& queries, const KeyBlock& keys,
                               const BlockMask& mask, const View& out, const Upstream& upstream,
                               const AttentionGradients& gradients, bool is_all) const {
  const DType type = accumulator_of(rank_.problem().dtype);
  const Tensor bias = bias_of_block(queries, keys);
  for (const HeadGroup& group : regular_groups(queries.heads)) {
    Call call(*this, queries, keys, mask, bias, group);
    call.block.out = call.lend(call.of_queries(out, 2));
    call.block.lse = call.lend(call.of_queries(upstream.lse, 1));
    call.block.dout = call.lend(call.of_queries(upstream.dout, 2));
    call.block.delta = call.lend(call.of_queries(upstream.delta, 1));
    const View dq_sum = call.of_queries(gradients.dq, 2);
    const View dk_sum = gradients.dk.slice(2, group.kv.first, group.kv.count);
    const View dv_sum = gradients.dv.slice(2, group.kv.first, group.kv.count);
    const Tensor dq = rank_.make(type, dq_sum.shape);
    const Tensor dk = rank_.make(type, dk_sum.shape);
    const Tensor dv = rank_.make(type, dv_sum.shape);
    call.block.dq = call.lend(dq);
    call.block.dk = call.lend(dk);
    call.block.dv = call.lend(dv);
    Tensor dbias;
    if (gradients.dbias.data != nullptr) {
      dbias = rank_.make(type, call.of_queries(bias, 0).shape);
      call.block.dbias = call.lend(dbias);
    }
    expect_success(subject_.attention_backward(&call.block), "attention_backward");
    const auto put = [&](const View& share, const View& sum) {
      is_all ? rank_.device().copy(share, sum) : rank_.device().add(share, sum);
    };
    put(dq, dq_sum);
    put(dk, dk_sum);
    put(dv, dv_sum);
    if (dbias && is_all) rank_.device().copy(dbias, call.of_queries(gradients.dbias, 0));
    if (dbias && !is_all) add_bias_gradient(queries, keys, group, dbias, gradients.dbias);
  }
}

// A group that is none by the rule is one of a single key/value head each.
std::vector<AttentionKernel::HeadGroup> AttentionKernel::regular_groups(const Heads& heads) {
  const Index count = heads.query.count;
  const Index kv_count = heads.kv.count;
  bool is_regular = count % kv_count == 0;
  for (Index h = 0; h < count && is_regular; ++h) {
    is_regular = heads.kv_of(h) == h * kv_count / count;
  }
  if (is_regular) return {{{0, count}, {0, kv_count}}};
  std::vector<HeadGroup> groups;
  for (Index h = 0; h < count; ++h) {
    const Index kv = heads.kv_of(h);
    if (groups.empty() || groups.back().kv.first != kv) groups.push_back({{h, 0}, {kv, 1}});
    ++groups.back().query.count;
  }
  return groups;
}

// [heads, queries, keys] of the block in the accumulator's type; empty without a bias.
Tensor AttentionKernel::bias_of_block(const QueryBlock& queries, const KeyBlock& keys) const {
  const Problem& problem = rank_.problem();
  const DType type = accumulator_of(problem.dtype);
  if (problem.bias == ScoreBias::kNone) return {};
  Tensor block = rank_.make(type, {queries.q.shape[2], queries.q.shape[1], keys.k.shape[1]});
  Index place = 0;  // row-major
  for (Index h = 0; h < queries.heads.query.count; ++h) {
    for (const Chunk& from : queries.chunks) {
      const View rows = block.view().select(0, h).slice(0, from.first, from.count);
      for (const Chunk& to : keys.chunks) {
        if (problem.bias == ScoreBias::kAlibi) continue;
        rank_.device().copy(bias_of(queries.bias, h, from, to), rows.slice(1, to.first, to.count));
      }
    }
    if (problem.bias != ScoreBias::kAlibi) continue;
    const double slope = alibi_slope(problem, queries.heads.query.first + h);
    for (Index query : positions_of(queries.chunks)) {
      for (Index key : positions_of(keys.chunks)) {
        const auto distance = static_cast<double>(std::abs(query - key));
        store(type, block.view().data, place++, -slope * distance);
      }
    }
  }
  return block;
}

void AttentionKernel::add_bias_gradient(const QueryBlock& queries, const KeyBlock& keys,
                                        const HeadGroup& group, const View& share,
                                        const View& sum) const {
  for (Index h = 0; h < group.query.count; ++h) {
    for (const Chunk& from : queries.chunks) {
      const View rows = share.select(0, h).slice(0, from.first, from.count);
      for (const Chunk& to : keys.chunks) {
        rank_.device().add(rows.slice(1, to.first, to.count),
                           bias_of(sum, group.query.first + h, from, to));
      }
    }
  }
}

MergedBlocks::MergedBlocks(Rank& rank, const View& like, Index dim_v)
    : rank_(rank),
      out_(make_zeros(rank, {like.shape[0], like.shape[1], like.shape[2], dim_v})),
      lse_(make_zeros(rank, {like.shape[0], like.shape[2], like.shape[1]})) {
  rank.device().fill(lse_, -std::numeric_limits<double>::infinity());
}

namespace {

// Every row: the merged lse is log(exp(lse) + exp(block's)), and -inf takes no part, whatever else.
template <typename T>
void merge(const View& out, const View& lse, const View& block_out, const View& block_lse) {
  const auto [batches, tokens, heads, width] =
      std::array{out.shape[0], out.shape[1], out.shape[2], out.shape[3]};
  T* const out_data = reinterpret_cast<T*>(out.data);
  T* const lse_data = reinterpret_cast<T*>(lse.data);
  const T* const block_data = reinterpret_cast<const T*>(block_out.data);
  const T* const block_lse_data = reinterpret_cast<const T*>(block_lse.data);
  for (Index b = 0; b < batches; ++b) {
    for (Index h = 0; h < heads; ++h) {
      for (Index i = 0; i < tokens; ++i) {
        const Index row = (b * heads + h) * tokens + i;
        const T mine = lse_data[row];
        const T other = block_lse_data[row];
        if (other == -std::numeric_limits<T>::infinity()) continue;
        const T top = mine > other ? mine : other;  // NaN where `other` is
        const T joint = top + std::log(std::exp(mine - top) + std::exp(other - top));
        const T keep = std::exp(mine - joint);
        const T take = std::exp(other - joint);
        const Index first = ((b * tokens + i) * heads + h) * width;
        for (Index d = first; d < first + width; ++d) {
          out_data[d] = out_data[d] * keep + block_data[d] * take;
        }
        lse_data[row] = joint;
      }
    }
  }
}

}  // namespace

void MergedBlocks::add(const AttentionKernel::Block& block) {
  const DType type = out_.view().dtype;
  Tensor wide = rank_.make(type, block.out.view().shape);
  rank_.device().copy(block.out, wide);
  if (type == DType::kF64) {
    merge<double>(out_, lse_, wide, block.lse);
  } else {
    merge<float>(out_, lse_, wide, block.lse);
  }
}

void MergedBlocks::store(const View& out, const View& lse) const {
  rank_.device().copy(out_, out);
  rank_.device().copy(lse_, lse);
}

}  // namespace shardproof
