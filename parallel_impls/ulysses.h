// DeepSpeed-Ulysses (Jacobs et al. 2023): ranks of a group hold tokens with all their heads; an
// all-to-all gives every rank all tokens of the group, in order, for some heads, and another one
// gives them back. A key/value head goes to every rank whose query heads use it, and its gradients
// are summed on the way back.
#pragma once

#include <array>

#include "parallel_impls/attention_tensors.h"

namespace shardproof {

// The ranks that exchange heads for tokens, as one of them sees it.
struct UlyssesGroup {
  std::string_view axis;
  int size = 1;
  int mine = 0;
  Layout layout = Layout::kContiguous;  // by which its ranks own the group's tokens
  std::vector<Chunk> queries;           // all of the group's
  std::vector<Chunk> keys;
};

inline Index tokens_in(const std::vector<Chunk>& chunks) {
  return chunks.empty() ? 0 : chunks.back().first + chunks.back().count;
}
inline Index tokens_on(Side side, const UlyssesGroup& group) {
  return tokens_in(side == Side::kQueries ? group.queries : group.keys);
}

// The tokens of `member`; `positions` are places among the group's tokens.
inline std::vector<Chunk> places(Side side, const UlyssesGroup& group, int member) {
  return owned_chunks(group.layout, tokens_on(side, group), group.size, member);
}

// The global positions of this rank's tokens.
inline std::vector<Index> own_positions(Side side, const UlyssesGroup& group) {
  const std::vector<Index> all = positions_of(side == Side::kQueries ? group.queries : group.keys);
  std::vector<Index> own =
      owned_positions(group.layout, tokens_on(side, group), group.size, group.mine);
  for (Index& position : own) position = all[static_cast<std::size_t>(position)];
  return own;
}

inline Range heads_on(Side side, const Problem& problem, const UlyssesGroup& group, int member) {
  const Heads heads = heads_of(problem, group.size, member);
  return side == Side::kQueries ? heads.query : heads.kv;
}

// The tokens of a chunk in a member's tensor [batch, its tokens, heads, ...] and in one of all
// tokens of the group.
inline View in_part(const View& tensor, const Chunk& chunk) {
  return tensor.slice(1, chunk.first, chunk.count);
}
inline View in_whole(const View& tensor, const Chunk& chunk) {
  const Positions& place = chunk.positions;
  View tokens = tensor.slice(1, place.first, (chunk.count - 1) * place.step + 1);
  tokens.shape[1] = chunk.count;
  tokens.strides[1] *= place.step;
  return tokens;
}

class HeadExchange {
 public:
  HeadExchange(Rank& rank, const UlyssesGroup& group) : rank_(rank), group_(group) {}

  // All tokens of this rank's heads, from all heads of its tokens [batch, tokens, heads, ...].
  Tensor to_heads(Side side, const View& part) const {
    const Index heads = heads_on(side, rank_.problem(), group_, group_.mine).count;
    Blocks sent, received;
    for (int member = 0; member < group_.size; ++member) {
      const Range theirs = heads_on(side, rank_.problem(), group_, member);
      sent.push_back(make(part, part.shape[1], theirs.count));
      received.push_back(make(part, tokens_in(places(side, group_, member)), heads));
      if (side == Side::kKeys) rank_.holds_remote_kv(received.back());
      rank_.device().copy(part.slice(2, theirs.first, theirs.count), sent.back());
    }
    exchange(sent, received);
    Tensor whole = make(part, tokens_on(side, group_), heads);
    if (side == Side::kKeys) rank_.holds_remote_kv(whole);
    for (int member = 0; member < group_.size; ++member) {
      for (const Chunk& chunk : places(side, group_, member)) {
        rank_.device().copy(in_part(received[member], chunk), in_whole(whole, chunk));
      }
    }
    return whole;
  }

  // The way back: `part` receives all heads of this rank's tokens, each summed over the ranks that
  // have it.
  void to_tokens(Side side, const View& whole, const View& part) const {
    Blocks sent, received;
    for (int member = 0; member < group_.size; ++member) {
      const std::vector<Chunk> theirs = places(side, group_, member);
      sent.push_back(make(whole, tokens_in(theirs), whole.shape[2]));
      received.push_back(
          make(whole, part.shape[1], heads_on(side, rank_.problem(), group_, member).count));
      for (const Chunk& chunk : theirs) {
        rank_.device().copy(in_whole(whole, chunk), in_part(sent.back(), chunk));
      }
    }
    exchange(sent, received);
    const Tensor sum = make_zeros(rank_, part.shape);
    for (int member = 0; member < group_.size; ++member) {
      const Range theirs = heads_on(side, rank_.problem(), group_, member);
      rank_.device().add(received[member], sum.view().slice(2, theirs.first, theirs.count));
    }
    rank_.device().copy(sum, part);
  }

 private:
  using Blocks = std::vector<Tensor>;  // one a member

  // `like` [batch, tokens, heads, ...] with other numbers of tokens and heads.
  Tensor make(const View& like, Index tokens, Index heads) const {
    Shape shape = like.shape;
    shape[1] = tokens;
    shape[2] = heads;
    return rank_.make(like.dtype, shape);
  }

  void exchange(const Blocks& sent, const Blocks& received) const {
    const std::vector<View> outgoing(sent.begin(), sent.end());
    const std::vector<View> incoming(received.begin(), received.end());
    rank_.along(group_.axis).all_to_all(outgoing, incoming);
  }

  Rank& rank_;
  const UlyssesGroup& group_;
};

// [batch, heads, tokens] as [batch, tokens, heads] and the other way round.
inline View turned(const View& tensor) { return tensor.transposed(1, 2); }

// This rank's heads of all queries of the group.
inline QueryBlock exchanged_queries(Rank& rank, const UlyssesGroup& group, const View& q) {
  return with_head_inputs(rank, q, heads_of(rank.problem(), group.size, group.mine), group.queries);
}

// `attention(queries, keys, out, lse)` computes this rank's heads between the exchanges. Keeps q,
// k, v, out and lse of these heads.
template <typename Attention>
void ulysses_forward(Rank& rank, const UlyssesGroup& group, Attention&& attention) {
  const HeadExchange exchange(rank, group);
  Tensor q = exchange.to_heads(Side::kQueries, rank.get("q"));
  Tensor k = exchange.to_heads(Side::kKeys, rank.get("k"));
  Tensor v = exchange.to_heads(Side::kKeys, rank.get("v"));
  const auto [batch, tokens, heads] =
      std::array{q.view().shape[0], q.view().shape[1], q.view().shape[2]};
  Tensor out = rank.make(q.view().dtype, {batch, tokens, heads, rank.problem().dim_v});
  Tensor lse = rank.make(accumulator_of(q.view().dtype), {batch, heads, tokens});
  attention(exchanged_queries(rank, group, q), KeyBlock{k, v, group.keys}, out, lse);
  exchange.to_tokens(Side::kQueries, out, rank.get("out"));
  exchange.to_tokens(Side::kQueries, turned(lse), turned(rank.get("lse")));
  rank.keep("q", std::move(q));
  rank.keep("k", std::move(k));
  rank.keep("v", std::move(v));
  rank.keep("out", std::move(out));
  rank.keep("lse", std::move(lse));
}

// dq or dk of this rank's tokens: what is turned back are the sums.
inline void gradients_to_tokens(Rank& rank, const HeadExchange& exchange, Side side,
                                const UlyssesGroup& group, const View& whole, const View& part) {
  const Tensor sum = make_zeros(rank, part.shape);
  exchange.to_tokens(side, whole, sum);
  store_turned_back(rank, side, own_positions(side, group), sum, part);
}

struct KeyGradients {
  Tensor dk, dv;
};

// `attention(queries, keys, upstream, gradients)` adds to dq and dbias of this rank's heads and
// returns dk and dv. All travel back in the accumulator's type and are rounded once.
template <typename Attention>
void ulysses_backward(Rank& rank, const UlyssesGroup& group, Attention&& attention) {
  const HeadExchange exchange(rank, group);
  const Tensor dout = exchange.to_heads(Side::kQueries, rank.get("dout"));
  const Tensor dlse = exchange.to_heads(Side::kQueries, turned(rank.get("dlse")));
  const QueryBlock queries = exchanged_queries(rank, group, rank.kept("q"));
  const KeyBlock keys{rank.kept("k"), rank.kept("v"), group.keys};
  const Upstream upstream =
      upstream_of(rank, dout, rank.kept("out"), turned(dlse), rank.kept("lse"));
  const QueryGradients gradients = start_query_gradients(rank, queries);
  const KeyGradients sums = attention(queries, keys, upstream, gradients);
  gradients_to_tokens(rank, exchange, Side::kQueries, group, gradients.dq, rank.get("dq"));
  gradients_to_tokens(rank, exchange, Side::kKeys, group, sums.dk, rank.get("dk"));
  exchange.to_tokens(Side::kKeys, sums.dv, rank.get("dv"));
  if (gradients.dbias) rank.device().copy(gradients.dbias, rank.get("dbias"));
}

}  // namespace shardproof
