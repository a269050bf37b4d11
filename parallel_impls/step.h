// A training step of a two-layer network, y = act(x w1) w2 + b2, on the tokens and hidden units of
// one rank, which works through its tokens in micro-batches and adds up its gradients.
#pragma once

#include "parallel_impls/linear.h"
#include "parallel_impls/shards.h"

namespace shardproof {

// The local tokens of a micro-batch; none where there are fewer tokens than micro-batches.
inline Range micro_batch(Rank& rank, Index which) {
  return even_part(rank.get("x").shape[0], rank.problem().micro_batches, which);
}

inline View tokens_of(const View& tensor, Range tokens) {
  return tensor.slice(0, tokens.first, tokens.count);
}

// w2 [hidden, outputs]; a tied network has w1 alone.
inline View second_weight(Rank& rank) {
  return rank.problem().tied ? rank.get("w1").transposed(0, 1) : rank.get("w2");
}

// What the forward pass leaves for the backward pass: z and a, [tokens, hidden].
inline void keep_hidden(Rank& rank) {
  const Shape shape{rank.get("x").shape[0], rank.get("w1").shape[1]};
  rank.keep("z", rank.make(rank.problem().dtype, shape));
  rank.keep("a", rank.make(rank.problem().dtype, shape));
}

// a w2 of some of the rank's tokens and all of its hidden units, in the accumulator's type.
inline Tensor step_forward(Rank& rank, Range tokens) {
  const Problem& problem = rank.problem();
  const Gemm how{.operand = precision_of(problem).operand};
  const View z = tokens_of(rank.kept("z"), tokens);
  const View a = tokens_of(rank.kept("a"), tokens);
  rank.device().gemm(tokens_of(rank.get("x"), tokens), rank.get("w1"), z, how);
  rank.device().activate(problem.activation, z, {}, a);
  Tensor y = rank.make(accumulator_of(problem.dtype), {tokens.count, problem.outputs});
  rank.device().gemm(a, second_weight(rank), y, how);
  return y;
}

// y = sum + b2
inline void store_outputs(Rank& rank, const View& sum, Range tokens) {
  rank.device().add_row(rank.get("b2"), sum);
  rank.device().copy(sum, tokens_of(rank.get("y"), tokens));
}

// The gradients of a rank's parameters, in the accumulator's type and in one buffer, so that one
// all-reduce sums them all: first those of weights, which may be cut, then that of b2.
struct Gradients {
  Tensor all;
  View weights;
  View bias;
  View first;   // of w1
  View second;  // of w2; tied: those of w1, transposed
};

inline Gradients zero_gradients(Rank& rank) {
  const Problem& problem = rank.problem();
  const Index hidden = rank.get("w1").shape[1];
  const Index first = problem.features * hidden;
  const Index second = problem.tied ? 0 : hidden * problem.outputs;
  Gradients gradients;
  gradients.all = rank.make(accumulator_of(problem.dtype), {first + second + problem.outputs});
  rank.device().fill(gradients.all, 0);
  const View& all = gradients.all.view();
  gradients.weights = all.slice(0, 0, first + second);
  gradients.bias = all.slice(0, first + second, problem.outputs);
  gradients.first = all.slice(0, 0, first).reshaped({problem.features, hidden});
  gradients.second = problem.tied ? gradients.first.transposed(0, 1)
                                  : all.slice(0, first, second).reshaped({hidden, problem.outputs});
  return gradients;
}

// Adds what some of the rank's tokens contribute to the gradients of its parameters. Returns what
// its hidden units contribute to dx of these tokens, in the accumulator's type.
inline Tensor step_backward(Rank& rank, Range tokens, const Gradients& gradients) {
  Device& device = rank.device();
  const Problem& problem = rank.problem();
  const Gemm how{.transpose_a = true, .accumulate = true, .operand = precision_of(problem).operand};
  const View z = tokens_of(rank.kept("z"), tokens);
  const View dy = tokens_of(rank.get("dy"), tokens);
  Tensor da = rank.make(problem.dtype, z.shape);
  Tensor dz = rank.make(problem.dtype, z.shape);
  linear_input_gradient(rank, dy, second_weight(rank), da, false);
  device.activate_backward(problem.activation, z, {}, da, dz, {});
  device.gemm(tokens_of(rank.get("x"), tokens), dz, gradients.first, how);
  device.gemm(tokens_of(rank.kept("a"), tokens), dy, gradients.second, how);
  Tensor sums = rank.make(gradients.bias.dtype, gradients.bias.shape);
  device.column_sums(dy, sums);
  device.add(sums, gradients.bias);
  Tensor dx = rank.make(gradients.bias.dtype, {tokens.count, problem.features});
  linear_input_gradient(rank, dz, rank.get("w1"), dx, false);
  return dx;
}

inline View as_column(const View& vector) { return vector.reshaped({vector.elements(), 1}); }

// The sum of the squares of a vector, [1].
inline Tensor sum_of_squares(Rank& rank, const View& values) {
  Tensor sum = rank.make(values.dtype, {1});
  rank.device().gemm(as_column(values), as_column(values), as_column(sum), {.transpose_a = true});
  return sum;
}

// Multiplies the gradients by max_norm / max(norm, max_norm), where there is a max_norm: by 1 where
// nothing is to be clipped, also for a norm of 0. `norm` is used up.
inline void clip(Rank& rank, const View& values, const View& norm) {
  Device& device = rank.device();
  const double max_norm = effective_max_norm(rank.problem());
  if (max_norm == 0) return;
  Tensor factor = rank.make(norm.dtype, {1});
  device.fill(factor, max_norm);
  device.at_least(max_norm, norm);
  device.divide(norm, factor);
  Tensor unclipped = rank.make(values.dtype, values.shape);
  device.copy(values, unclipped);
  device.gemm(as_column(unclipped), as_column(factor), as_column(values), {});
}

inline void store_gradients(Rank& rank, const Gradients& gradients) {
  rank.device().copy(gradients.first, rank.get("dw1"));
  if (!rank.problem().tied) rank.device().copy(gradients.second, rank.get("dw2"));
  rank.device().copy(gradients.bias, rank.get("db2"));
}

// Tokens and hidden units of each rank, where sums over them are all-reduced.
inline Contract step_contract(const Case& value, Partition tokens, Partition units) {
  Contract contract;
  contract.precision = precision_of(value.problem);
  contract.partitions.queries = std::move(tokens);
  contract.partitions.summed = std::move(units);
  return contract;
}

}  // namespace shardproof
