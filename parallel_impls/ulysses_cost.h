// What the exchanges of Ulysses leave on a rank and cost, by formula.
#pragma once

#include "parallel_impls/ring_cost.h"
#include "parallel_impls/ulysses.h"

namespace shardproof {

// All heads of this rank's tokens; of biases and sinks, which are never moved, what this rank's
// heads need.
inline Shard ulysses_shard(const Problem& problem, const TensorSpec& tensor,
                           const UlyssesGroup& group) {
  if (tensor.role == Role::kScoreBias) {
    return attention_shard(problem, tensor, heads_of(problem, group.size, group.mine),
                           positions_of(group.queries), positions_of(group.keys));
  }
  return attention_shard(problem, tensor, heads_of(problem, 1, 0),
                         own_positions(Side::kQueries, group), own_positions(Side::kKeys, group));
}

// Pairs of a token and a head that this rank hands to others: its tokens of their heads, and on the
// way back their tokens of its heads.
struct Exchanged {
  Index to_heads = 0;
  Index to_tokens = 0;
};
inline Exchanged exchanged(Side side, const Problem& problem, const UlyssesGroup& group) {
  const auto tokens = [&](int member) { return tokens_in(places(side, group, member)); };
  const auto heads = [&](int member) { return heads_on(side, problem, group, member).count; };
  Exchanged sum;
  for (int member = 0; member < group.size; ++member) {
    if (member == group.mine) continue;
    sum.to_heads += problem.batch * tokens(group.mine) * heads(member);
    sum.to_tokens += problem.batch * tokens(member) * heads(group.mine);
  }
  return sum;
}

// Forward q, k and v go to heads, out and lse to tokens; backward dout and dlse, then dq, dk and
// dv.
inline std::vector<Traffic> ulysses_traffic(const Problem& problem, const UlyssesGroup& group) {
  const auto io = static_cast<Index>(storage_bytes(problem.dtype));
  const auto sum = static_cast<Index>(storage_bytes(accumulator_of(problem.dtype)));
  const Exchanged q = exchanged(Side::kQueries, problem, group);
  const Exchanged k = exchanged(Side::kKeys, problem, group);
  const Index both = problem.dim + problem.dim_v;
  const std::string axis(group.axis);
  return {{Phase::kForward, "all_to_all", axis, 5,
           q.to_heads * problem.dim * io + k.to_heads * both * io +
               q.to_tokens * (problem.dim_v * io + sum)},
          {Phase::kBackward, "all_to_all", axis, 5,
           q.to_heads * (problem.dim_v * io + sum) + q.to_tokens * problem.dim * sum +
               k.to_tokens * both * sum}};
}

// Keys and values of all tokens of the group for this rank's heads, and at worst the blocks that
// one of the two arrived in. `ring_bytes`: of blocks of other groups, once both are in order.
inline Index ulysses_resident_bytes(const Problem& problem, const UlyssesGroup& group,
                                    Index ring_bytes) {
  const Index pairs = problem.batch * tokens_on(Side::kKeys, group) *
                      heads_on(Side::kKeys, problem, group, group.mine).count;
  const Index bytes = pairs * static_cast<Index>(storage_bytes(problem.dtype));
  const Index k = bytes * problem.dim;
  const Index v = bytes * problem.dim_v;
  return std::max({2 * k, k + 2 * v, k + v + ring_bytes});
}

}  // namespace shardproof
