// A norm and the two linear layers after it: z = norm(x) of the tokens whose x a rank holds, and
// h = z w1, y = h w2 of the hidden units whose weights it holds. All of both on a rank that is
// alone.
#pragma once

#include "parallel_impls/linear.h"
#include "parallel_impls/shards.h"

namespace shardproof {

inline bool is_layer_norm(const Problem& problem) { return problem.norm == Norm::kLayer; }

// [rows, columns] that leaves a matrix product as it was accumulated.
inline Tensor accumulated(Rank& rank, Index rows, Index columns) {
  return rank.make(accumulator_of(rank.problem().dtype), {rows, columns});
}

// z of the rank's tokens, [rows of x, features]. Keeps the moments of x.
inline Tensor norm_forward(Rank& rank) {
  const Problem& problem = rank.problem();
  const View x = rank.get("x");
  const View beta = is_layer_norm(problem) ? rank.get("beta") : View{};
  Tensor moments = accumulated(rank, 2, x.shape[0]);
  rank.device().row_moments(problem.norm, x, moments);
  Tensor z = rank.make(problem.dtype, x.shape);
  rank.device().normalize(effective_epsilon(problem), x, moments, rank.get("gamma"), beta, z);
  rank.keep("moments", std::move(moments));
  return z;
}

// Stores dx of the rank's tokens, given dz of them; returns their share of dgamma and dbeta,
// [2, features].
inline Tensor norm_backward(Rank& rank, const View& dz) {
  const Problem& problem = rank.problem();
  const View x = rank.get("x");
  Tensor sums = accumulated(rank, 2, problem.features);
  rank.device().normalize_backward(problem.norm, effective_epsilon(problem), x,
                                   rank.kept("moments"), rank.get("gamma"), dz, rank.get("dx"),
                                   sums);
  return sums;
}

inline void store_norm_gradients(Rank& rank, const View& sums) {
  rank.device().copy(sums.select(0, 0), rank.get("dgamma"));
  if (is_layer_norm(rank.problem())) rank.device().copy(sums.select(0, 1), rank.get("dbeta"));
}

// h w2 of the rank's hidden units for all tokens, [tokens, outputs]. Keeps h.
inline Tensor layers_forward(Rank& rank, const View& z) {
  const Problem& problem = rank.problem();
  const DType operand = precision_of(problem).operand;
  Tensor h = rank.make(problem.dtype, {problem.tokens, rank.get("w1").shape[1]});
  rank.device().gemm(z, rank.get("w1"), h, {.operand = operand});
  Tensor y = accumulated(rank, problem.tokens, problem.outputs);
  rank.device().gemm(h, rank.get("w2"), y, {.operand = operand});
  rank.keep("h", std::move(h));
  return y;
}

// Stores the gradients of the rank's weights; returns its share of dz for all tokens.
inline Tensor layers_backward(Rank& rank, const View& z, const View& dy) {
  const Problem& problem = rank.problem();
  const DType operand = precision_of(problem).operand;
  const View& h = rank.kept("h");
  Tensor dh = rank.make(problem.dtype, h.shape);
  linear_input_gradient(rank, dy, rank.get("w2"), dh, false);
  rank.device().gemm(h, dy, rank.get("dw2"), {.transpose_a = true, .operand = operand});
  rank.device().gemm(z, dh, rank.get("dw1"), {.transpose_a = true, .operand = operand});
  Tensor dz = accumulated(rank, problem.tokens, problem.features);
  linear_input_gradient(rank, dh, rank.get("w1"), dz, false);
  return dz;
}

// Tokens and hidden units are each cut into `parts`.
inline Contract norm_contract(const Case& value, int parts) {
  Contract contract;
  contract.precision = precision_of(value.problem);
  contract.partitions.summed = even_partition(value.problem.hidden, parts);
  contract.partitions.queries = even_partition(value.problem.tokens, parts);
  return contract;
}

}  // namespace shardproof
