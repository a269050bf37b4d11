// A tensor-parallel attention layer (Shoeybi et al. 2019, figure 3b) whose projections are one
// fused weight [Q | K | V]: a rank takes its heads' columns of each of the three and projects with
// all of them at once, so that its q, k and v lie side by side in the rows of one matrix.
#include "parallel_impls/dense.h"
#include "parallel_impls/fused_weight.h"
#include "parallel_impls/head_parallel.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

// The columns of the fused weight that belong to these heads.
std::vector<Range> columns_of(const Problem& problem, const Heads& heads) {
  const Index k = problem.heads * problem.dim;
  const Index v = k + problem.kv_heads * problem.dim;
  return {{heads.query.first * problem.dim, heads.query.count * problem.dim},
          {k + heads.kv.first * problem.dim, heads.kv.count * problem.dim},
          {v + heads.kv.first * problem.dim_v, heads.kv.count * problem.dim_v}};
}

// This rank's heads of a matrix that has their columns: [rows, heads, n].
struct Projections {
  View q, k, v;
};
Projections projections_in(Rank& rank, const View& matrix) {
  const Problem& problem = rank.problem();
  const Heads heads = own_heads(rank);
  const Index k = heads.query.count * problem.dim;
  const Index v = k + heads.kv.count * problem.dim;
  return {heads_in(matrix, 0, heads.query.count, problem.dim),
          heads_in(matrix, k, heads.kv.count, problem.dim),
          heads_in(matrix, v, heads.kv.count, problem.dim_v)};
}

// Rows that are the tokens of a batch, as [batch, tokens, heads, n].
View as_tokens(const Problem& problem, const View& rows) {
  View tokens = rows;
  tokens.shape = {problem.batch, problem.q, rows.shape[1], rows.shape[2]};
  tokens.strides = {problem.q * rows.strides[0], rows.strides[0], rows.strides[1], rows.strides[2]};
  return tokens;
}
Projections tokens_in(Rank& rank, const View& matrix) {
  const Projections rows = projections_in(rank, matrix);
  return {as_tokens(rank.problem(), rows.q), as_tokens(rank.problem(), rows.k),
          as_tokens(rank.problem(), rows.v)};
}

Tensor own_weights(Rank& rank) {
  const Tensor whole = fused(rank, {rank.get("wq"), rank.get("wk"), rank.get("wv")});
  return taken(rank, whole, columns_of(rank.problem(), own_heads(rank)));
}
Tensor own_biases(Rank& rank) {
  const Tensor whole =
      fused(rank, {with_dimension(rank.get("bq"), 0), with_dimension(rank.get("bk"), 0),
                   with_dimension(rank.get("bv"), 0)});
  return taken(rank, whole, columns_of(rank.problem(), own_heads(rank)));
}

// [tokens, features] of x or dy, dense.
View token_rows(Rank& rank, std::string_view name, Tensor& room) {
  return as_matrix(dense_of(rank, rank.get(name), room), 2);
}

void forward(Rank& rank) {
  const Problem& problem = rank.problem();
  const DType accumulator = accumulator_of(problem.dtype);
  const Heads heads = own_heads(rank);
  Tensor x_room, wo_room;
  Tensor w = own_weights(rank);
  const Tensor b = own_biases(rank);
  const Index rows = problem.batch * problem.q;
  Tensor qkv = rank.make(problem.dtype, {rows, w.view().shape[1]});
  linear(rank, token_rows(rank, "x", x_room), w, b.view().select(0, 0), qkv);
  const auto [q, k, v] = tokens_in(rank, qkv);

  Tensor out =
      rank.make(problem.dtype, {problem.batch, problem.q, heads.query.count, problem.dim_v});
  Tensor lse = rank.make(accumulator, {problem.batch, heads.query.count, problem.q});
  const QueryBlock queries = layer_queries(rank, heads, q);
  const RunningSoftmax state = start_softmax(rank, queries, problem.dim_v);
  attend(rank, queries, layer_keys(rank, k, v), state);
  finish_attention(rank, state, out, lse);

  const Tensor y = rank.make(accumulator, {rows, problem.features});
  rank.device().gemm(as_matrix(out, 2), as_matrix(dense_of(rank, rank.get("wo"), wo_room), 2), y,
                     {.operand = precision_of(problem).operand});
  rank.along("tp").all_reduce(y);
  rank.device().add_row(rank.get("bo"), y);
  const View whole = rank.get("y");
  rank.device().copy(y.view().reshaped(whole.shape), whole);
  rank.keep("w", std::move(w));
  rank.keep("qkv", std::move(qkv));
  rank.keep("out", std::move(out));
  rank.keep("lse", std::move(lse));
}

// dout of this rank's heads; stores dwo and dbo.
Tensor output_backward(Rank& rank, const View& dy) {
  const View& out = rank.kept("out");
  const View wo = rank.get("wo");
  Tensor wo_room;
  Tensor dout = rank.make(out.dtype, out.shape);
  linear_input_gradient(rank, dy, as_matrix(dense_of(rank, wo, wo_room), 2), as_matrix(dout, 2),
                        false);
  const Tensor dwo = rank.make(wo.dtype, wo.shape);
  linear_weight_gradients(rank, as_matrix(out, 2), dy, as_matrix(dwo, 2), rank.get("dbo"));
  rank.device().copy(dwo, rank.get("dwo"));
  return dout;
}

// dq, dk and dv side by side, rounded where no other rank adds to them.
Tensor attention_backward(Rank& rank, const View& dout, bool kv_is_shared) {
  const View& qkv = rank.kept("qkv");
  const auto [q, k, v] = tokens_in(rank, qkv);
  Tensor dqkv = make_zeros(rank, qkv.shape);
  const auto [dq, dk, dv] = tokens_in(rank, dqkv);
  const Upstream upstream = upstream_of(rank, dout, rank.kept("out"), {}, rank.kept("lse"));
  attend_backward(rank, layer_queries(rank, own_heads(rank), q), layer_keys(rank, k, v), upstream,
                  {dq, dk, dv, {}});
  rank.device().round(dq, qkv.dtype);
  if (!kv_is_shared) {
    rank.device().round(dk, qkv.dtype);
    rank.device().round(dv, qkv.dtype);
  }
  return dqkv;
}

void backward(Rank& rank) {
  const std::vector<Index> shared = shared_kv_heads(rank.problem(), rank.size("tp"));
  Tensor x_room, dy_room;
  const View x = token_rows(rank, "x", x_room);
  const Tensor dout = output_backward(rank, token_rows(rank, "dy", dy_room));
  const Tensor dqkv = attention_backward(rank, dout, !shared.empty());
  const View& w = rank.kept("w");
  const Tensor dw = make_like(rank, w);
  const Tensor db = rank.make(dw.view().dtype, {1, w.shape[1]});
  linear_weight_gradients(rank, x, dqkv, dw, db.view().select(0, 0));
  const Tensor dx = make_like(rank, x);
  linear_input_gradient(rank, dqkv, w, dx, false);
  rank.along("tp").all_reduce(dx);

  Device& device = rank.device();
  const auto [dwq, dwk, dwv] = projections_in(rank, dw);
  const auto [dbq, dbk, dbv] = projections_in(rank, db);
  sum_shared_heads(rank, shared, own_heads(rank).kv,
                   {dwk, dbk.select(0, 0), dwv, dbv.select(0, 0)});
  device.copy(dwq, rank.get("dwq"));
  device.copy(dwk, rank.get("dwk"));
  device.copy(dwv, rank.get("dwv"));
  device.copy(dbq.select(0, 0), rank.get("dbq"));
  device.copy(dbk.select(0, 0), rank.get("dbk"));
  device.copy(dbv.select(0, 0), rank.get("dbv"));
  device.copy(dx.view().reshaped(rank.get("dx").shape), rank.get("dx"));
}

// Fused weights are whole everywhere; their gradients are where their heads are.
Shard shard(const Case& value, const TensorSpec& tensor, int rank) {
  const Mesh& mesh = value.placement.mesh;
  const Heads heads = heads_of(value.problem, mesh.size("tp"), mesh.coordinate(rank, "tp"));
  Shard held = whole(tensor);
  const std::string_view name = tensor.name;
  if (name == "dwq") held[1] = indices(heads.query);
  if (name == "dwk" || name == "dwv") held[1] = indices(heads.kv);
  if (name == "dbq" || name == "wo" || name == "dwo") held[0] = indices(heads.query);
  if (name == "dbk" || name == "dbv") held[0] = indices(heads.kv);
  return held;
}

}  // namespace

const Subject& fused_head_parallel_attention() {
  static const Subject subject{
      .name = "fused_head_parallel_attention",
      .op = "attention_layer",
      .summary = "one fused weight [Q | K | V], cut head by head along tp",
      .axes = {"tp"},
      .any_views = true,
      .contract =
          [](const Case& value) { return layer_contract(value, value.placement.mesh.size("tp")); },
      .cost = head_parallel_cost,
      .unsupported =
          [](const Case& value) {
            const std::string reason = unsupported_layer(value.problem);
            return reason.empty() ? foreign_axis(value.placement.mesh, {"tp"}) : reason;
          },
      .shard = shard,
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
