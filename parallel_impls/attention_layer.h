// The heads of an attention layer that one rank computes: projections to q, k and v, attention, and
// their share of the output projection. All of them on a rank that is alone.
#pragma once

#include "parallel_impls/attention_block.h"
#include "parallel_impls/linear.h"
#include "parallel_impls/shards.h"

namespace shardproof {

inline QueryBlock layer_queries(Rank& rank, const Heads& heads, const View& q) {
  return {q, {}, every_token(rank.problem().q), heads};
}

inline KeyBlock layer_keys(Rank& rank, const View& k, const View& v) {
  return {k, v, every_token(rank.problem().kv)};
}

// x w + b as [batch, tokens, heads, n]; w [features, heads, n], b [heads, n].
inline Tensor project(Rank& rank, const View& w, const View& b) {
  const Problem& problem = rank.problem();
  Tensor y = rank.make(problem.dtype, {problem.batch, problem.q, w.shape[1], w.shape[2]});
  linear(rank, as_matrix(rank.get("x"), 2), as_matrix(w, 1), as_vector(b), as_matrix(y, 2));
  return y;
}

// What the backward pass needs of the forward pass besides the inputs.
struct HeadActivations {
  Tensor q, k, v, out, lse;
};

inline HeadActivations attend_with_heads(Rank& rank, const Heads& heads) {
  const Problem& problem = rank.problem();
  HeadActivations made{
      project(rank, rank.get("wq"), rank.get("bq")), project(rank, rank.get("wk"), rank.get("bk")),
      project(rank, rank.get("wv"), rank.get("bv")),
      rank.make(problem.dtype, {problem.batch, problem.q, heads.query.count, problem.dim_v}),
      rank.make(accumulator_of(problem.dtype), {problem.batch, heads.query.count, problem.q})};
  const QueryBlock queries = layer_queries(rank, heads, made.q);
  const RunningSoftmax state = start_softmax(rank, queries, problem.dim_v);
  attend(rank, queries, layer_keys(rank, made.k, made.v), state);
  finish_attention(rank, state, made.out, made.lse);
  return made;
}

inline void keep_for_backward(Rank& rank, HeadActivations made) {
  rank.keep("q", std::move(made.q));
  rank.keep("k", std::move(made.k));
  rank.keep("v", std::move(made.v));
  rank.keep("out", std::move(made.out));
  rank.keep("lse", std::move(made.lse));
}

// out wo of this rank's heads, [batch * tokens, features] in the accumulator's type.
inline Tensor project_out(Rank& rank, const View& out) {
  const Problem& problem = rank.problem();
  Tensor y =
      rank.make(accumulator_of(problem.dtype), {problem.batch * problem.q, problem.features});
  rank.device().gemm(as_matrix(out, 2), as_matrix(rank.get("wo"), 2), y,
                     {.operand = precision_of(problem).operand});
  return y;
}

// The same from x, keeping what the backward pass needs.
inline Tensor heads_forward(Rank& rank, const Heads& heads) {
  HeadActivations made = attend_with_heads(rank, heads);
  Tensor y = project_out(rank, made.out);
  keep_for_backward(rank, std::move(made));
  return y;
}

// y = sum + bo: bo belongs to no head, so it is added to the complete sum.
inline void store_layer_outputs(Rank& rank, const View& sum) {
  rank.device().add_row(rank.get("bo"), sum);
  rank.device().copy(sum, as_matrix(rank.get("y"), 2));
}

// This rank's share of what others may have a share of, in the accumulator's type.
struct HeadsGradients {
  Tensor dx;                  // [batch * tokens, features]
  Tensor dwk, dbk, dwv, dbv;  // as the weights
};

inline Tensor make_like(Rank& rank, const View& tensor) {
  return rank.make(accumulator_of(tensor.dtype), tensor.shape);
}

// Stores dwq, dbq, dwo and dbo, which are complete, and returns the rest. `kv_is_shared`: other
// ranks add to the gradients of k and v.
inline HeadsGradients heads_backward(Rank& rank, const Heads& heads, bool kv_is_shared) {
  Device& device = rank.device();
  const DType io = rank.problem().dtype;
  const View x = as_matrix(rank.get("x"), 2);
  const View dy = as_matrix(rank.get("dy"), 2);
  const View& out = rank.kept("out");
  linear_weight_gradients(rank, as_matrix(out, 2), dy, as_matrix(rank.get("dwo"), 2),
                          rank.get("dbo"));
  const Tensor dout = rank.make(io, out.shape);
  linear_input_gradient(rank, dy, as_matrix(rank.get("wo"), 2), as_matrix(dout, 2), false);

  const QueryBlock queries = layer_queries(rank, heads, rank.kept("q"));
  const KeyBlock keys = layer_keys(rank, rank.kept("k"), rank.kept("v"));
  const Tensor dq = make_zeros(rank, queries.q.shape);
  const Tensor dk = make_zeros(rank, keys.k.shape);
  const Tensor dv = make_zeros(rank, keys.v.shape);
  attend_backward(rank, queries, keys, upstream_of(rank, dout, out, {}, rank.kept("lse")),
                  {dq, dk, dv, {}});
  device.round(dq, io);
  if (!kv_is_shared) {  // the roundings of several ranks' shares would add up
    device.round(dk, io);
    device.round(dv, io);
  }

  const View dq_rows = as_matrix(dq, 2);
  const View dk_rows = as_matrix(dk, 2);
  const View dv_rows = as_matrix(dv, 2);
  linear_weight_gradients(rank, x, dq_rows, as_matrix(rank.get("dwq"), 1),
                          as_vector(rank.get("dbq")));
  HeadsGradients shares{rank.make(accumulator_of(io), x.shape), make_like(rank, rank.get("wk")),
                        make_like(rank, rank.get("bk")), make_like(rank, rank.get("wv")),
                        make_like(rank, rank.get("bv"))};
  linear_weight_gradients(rank, x, dk_rows, as_matrix(shares.dwk, 1), as_vector(shares.dbk));
  linear_weight_gradients(rank, x, dv_rows, as_matrix(shares.dwv, 1), as_vector(shares.dbv));
  linear_input_gradient(rank, dq_rows, as_matrix(rank.get("wq"), 1), shares.dx, false);
  linear_input_gradient(rank, dk_rows, as_matrix(rank.get("wk"), 1), shares.dx, true);
  linear_input_gradient(rank, dv_rows, as_matrix(rank.get("wv"), 1), shares.dx, true);
  return shares;
}

inline void store_layer_gradients(Rank& rank, const HeadsGradients& sums) {
  rank.device().copy(sums.dx, as_matrix(rank.get("dx"), 2));
  rank.device().copy(sums.dwk, rank.get("dwk"));
  rank.device().copy(sums.dbk, rank.get("dbk"));
  rank.device().copy(sums.dwv, rank.get("dwv"));
  rank.device().copy(sums.dbv, rank.get("dbv"));
}

inline std::string unsupported_layer(const Problem& problem) {
  return problem.q == problem.kv ? "" : "attention_layer needs q == kv";
}

inline Contract layer_contract(const Case& value, int parts) {
  const Problem& problem = value.problem;
  return {.precision = precision_of(problem),
          .partitions = {.queries = even_partition(problem.q, 1),
                         .keys = even_partition(problem.kv, 1),
                         .summed = even_partition(problem.heads, parts)}};
}

}  // namespace shardproof
