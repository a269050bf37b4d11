// The ring of ring attention (Liu et al. 2023): query tokens stay where they are, blocks of keys
// and values travel along the mesh axis "cp", and the gradients of a block travel with it until
// they are home. A rank holds at most two blocks of others: the one it works on and the one on its
// way.
#pragma once

#include "parallel_impls/attention_tensors.h"
#include "parallel_impls/dense.h"

namespace shardproof {

enum RingTag { kKeysTag, kValuesTag, kKeyGradientsTag, kValueGradientsTag };

inline int ring_next(const Communicator& ring) { return (ring.rank() + 1) % ring.size(); }
inline int ring_previous(const Communicator& ring) {
  return (ring.rank() + ring.size() - 1) % ring.size();
}

// Whose block rank `rank` of `size` holds at `step`: blocks move to the next rank.
inline int block_owner(int rank, int size, int step) { return (rank - step + size) % size; }

inline std::vector<Index> owned_keys(const Case& value, int ring_size, int owner) {
  return owned_positions(value.placement.layout, value.problem.kv, ring_size, owner);
}
inline std::vector<Chunk> key_chunks(const Case& value, int ring_size, int owner) {
  return owned_chunks(value.placement.layout, value.problem.kv, ring_size, owner);
}
inline std::vector<Chunk> query_chunks(const Case& value, int ring_size, int owner) {
  return owned_chunks(value.placement.layout, value.problem.q, ring_size, owner);
}

// The query heads and tokens of this rank.
inline QueryBlock own_queries(Rank& rank) {
  return local_queries(rank, heads_of(rank.problem(), rank.size("tp"), rank.coordinate("tp")),
                       query_chunks(rank.running(), rank.size("cp"), rank.coordinate("cp")));
}

// What `rank` holds where heads are cut along "tp" and tokens, by the layout, along "cp".
inline Shard ring_shard(const Case& value, const TensorSpec& tensor, int rank) {
  const Mesh& mesh = value.placement.mesh;
  const Index ranks = mesh.size("cp");
  const Index mine = mesh.coordinate(rank, "cp");
  const Heads heads = heads_of(value.problem, mesh.size("tp"), mesh.coordinate(rank, "tp"));
  return attention_shard(value.problem, tensor, heads,
                         owned_positions(value.placement.layout, value.problem.q, ranks, mine),
                         owned_positions(value.placement.layout, value.problem.kv, ranks, mine));
}

// Stores the complete gradients of this rank's block.
inline void store_key_gradients(Rank& rank, const View& dk, const View& dv) {
  const auto tokens = owned_keys(rank.running(), rank.size("cp"), rank.coordinate("cp"));
  store_turned_back(rank, Side::kKeys, tokens, dk, rank.get("dk"));
  rank.device().copy(dv, rank.get("dv"));
}

// The shape of `tensor` [batch, tokens, kv heads, n] with the tokens of block `owner`.
inline Shape block_shape(Rank& rank, const View& tensor, int owner) {
  Shape shape = tensor.shape;
  const auto tokens = owned_keys(rank.running(), rank.along("cp").size(), owner);
  shape[1] = static_cast<Index>(tokens.size());
  return shape;
}

// The keys and values that this rank works on, step by step.
class TravellingKeys {
 public:
  // `k` and `v`: this rank's block.
  TravellingKeys(Rank& rank, const View& k, const View& v)
      : rank_(rank), ring_(rank.along("cp")), here_(block(k, v)) {
    if (ring_.size() == 1) return;
    here_ = block(dense_of(rank, k, k_here_), dense_of(rank, v, v_here_));
  }

  const KeyBlock& here() const { return here_; }

  // Passes the block on and starts to receive the next one, unless this is the last.
  void start_next() {
    if (step_ + 1 == ring_.size()) return;
    const int owner = block_owner(ring_.rank(), ring_.size(), step_ + 1);
    k_arriving_ = rank_.make(here_.k.dtype, block_shape(rank_, here_.k, owner));
    v_arriving_ = rank_.make(here_.v.dtype, block_shape(rank_, here_.v, owner));
    rank_.holds_remote_kv(k_arriving_);
    rank_.holds_remote_kv(v_arriving_);
    k_exchange_ = ring_.start_exchange(here_.k, ring_next(ring_), k_arriving_, ring_previous(ring_),
                                       kKeysTag);
    v_exchange_ = ring_.start_exchange(here_.v, ring_next(ring_), v_arriving_, ring_previous(ring_),
                                       kValuesTag);
  }

  // Makes the block that arrives the current one.
  void finish_next() {
    if (++step_ == ring_.size()) return;
    ring_.wait(k_exchange_);
    ring_.wait(v_exchange_);
    k_here_ = std::move(k_arriving_);
    v_here_ = std::move(v_arriving_);
    here_ = block(k_here_, v_here_);
  }

 private:
  KeyBlock block(const View& k, const View& v) const {
    const int owner = block_owner(ring_.rank(), ring_.size(), step_);
    return {k, v, key_chunks(rank_.running(), ring_.size(), owner)};
  }

  Rank& rank_;
  Communicator& ring_;
  int step_ = 0;
  Tensor k_here_, v_here_, k_arriving_, v_arriving_;  // blocks of other ranks, or dense copies
  KeyBlock here_;
  Communicator::Exchange k_exchange_, v_exchange_;
};

// The gradients of key blocks, one hop behind the keys: a rank adds its part to the sum that
// arrives and sends the sum on. After as many hops as there are ranks the sum is where its block
// belongs.
class TravellingGradients {
 public:
  explicit TravellingGradients(Rank& rank) : rank_(rank), ring_(rank.along("cp")) {}

  // `dk` and `dv`: this rank's part for the block of the current step.
  void add_and_send(Tensor dk, Tensor dv) {
    if (step_ > 0) {
      receive();
      rank_.device().add(dk_arriving_, dk);
      rank_.device().add(dv_arriving_, dv);
    }
    ++step_;
    dk_sent_ = std::move(dk);
    dv_sent_ = std::move(dv);
    if (ring_.size() == 1) return;
    const int owner = block_owner(ring_.rank(), ring_.size(), step_ % ring_.size());
    dk_arriving_ = rank_.make(dk_sent_.view().dtype, block_shape(rank_, dk_sent_, owner));
    dv_arriving_ = rank_.make(dv_sent_.view().dtype, block_shape(rank_, dv_sent_, owner));
    dk_exchange_ = ring_.start_exchange(dk_sent_, ring_next(ring_), dk_arriving_,
                                        ring_previous(ring_), kKeyGradientsTag);
    dv_exchange_ = ring_.start_exchange(dv_sent_, ring_next(ring_), dv_arriving_,
                                        ring_previous(ring_), kValueGradientsTag);
  }

  // The complete sums of this rank's own block.
  struct Home {
    Tensor dk, dv;
  };
  Home arrive_home() {
    if (ring_.size() == 1) return {std::move(dk_sent_), std::move(dv_sent_)};
    receive();
    return {std::move(dk_arriving_), std::move(dv_arriving_)};
  }

 private:
  void receive() {
    ring_.wait(dk_exchange_);
    ring_.wait(dv_exchange_);
  }

  Rank& rank_;
  Communicator& ring_;
  int step_ = 0;
  Tensor dk_sent_, dv_sent_, dk_arriving_, dv_arriving_;
  Communicator::Exchange dk_exchange_, dv_exchange_;
};

// The forward pass of a rank's query heads; `k` and `v` are its block of keys.
inline void ring_forward(Rank& rank, const QueryBlock& queries, const View& k, const View& v,
                         const View& out, const View& lse) {
  const RunningSoftmax state = start_softmax(rank, queries, rank.problem().dim_v);
  TravellingKeys keys(rank, k, v);
  for (int step = 0; step < rank.size("cp"); ++step) {
    keys.start_next();  // in flight while this block is computed
    attend(rank, queries, keys.here(), state);
    keys.finish_next();
  }
  finish_attention(rank, state, out, lse);
}

// The same where shards are not moved before.
inline void ring_forward(Rank& rank, const QueryBlock& queries) {
  ring_forward(rank, queries, rank.get("k"), rank.get("v"), rank.get("out"), rank.get("lse"));
}

// The backward pass; adds to `gradients`, stores those of sinks and returns the sums for this
// rank's block of keys.
inline TravellingGradients::Home ring_backward(Rank& rank, const QueryBlock& queries, const View& k,
                                               const View& v, const Upstream& upstream,
                                               const QueryGradients& gradients) {
  TravellingKeys keys(rank, k, v);
  TravellingGradients key_gradients(rank);
  for (int step = 0; step < rank.size("cp"); ++step) {
    keys.start_next();
    Tensor dk = make_zeros(rank, keys.here().k.shape);
    Tensor dv = make_zeros(rank, keys.here().v.shape);
    attend_backward(rank, queries, keys.here(), upstream, gradients.with(dk, dv));
    key_gradients.add_and_send(std::move(dk), std::move(dv));
    keys.finish_next();
  }
  store_sink_gradients(rank, queries, upstream, "cp");
  return key_gradients.arrive_home();
}

// The same where shards are not moved before; stores dq and dbias.
inline TravellingGradients::Home ring_backward(Rank& rank, const QueryBlock& queries) {
  const QueryGradients gradients = start_query_gradients(rank, queries);
  auto home =
      ring_backward(rank, queries, rank.get("k"), rank.get("v"), local_upstream(rank), gradients);
  store_query_gradients(rank, queries, gradients);
  return home;
}

}  // namespace shardproof
