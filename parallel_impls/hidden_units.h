// The hidden units of an mlp that one rank computes: z = x w1 + b1, a = act(z) or, gated,
// act(z) * (x wg + bg), and their share of y = a w2. All of them on a rank that is alone.
#pragma once

#include "parallel_impls/linear.h"
#include "parallel_impls/shards.h"

namespace shardproof {

// What the backward pass needs of the forward pass besides the inputs.
struct HiddenActivations {
  Tensor z, up, a;  // up: empty unless gated
};

inline HiddenActivations activate_hidden_units(Rank& rank) {
  const Problem& problem = rank.problem();
  const Index hidden = rank.get("w1").shape[1];
  const View x = rank.get("x");
  HiddenActivations made;
  made.z = rank.make(problem.dtype, {problem.tokens, hidden});
  made.a = rank.make(problem.dtype, {problem.tokens, hidden});
  linear(rank, x, rank.get("w1"), rank.get("b1"), made.z);
  if (problem.gated) {
    made.up = rank.make(problem.dtype, {problem.tokens, hidden});
    linear(rank, x, rank.get("wg"), rank.get("bg"), made.up);
  }
  rank.device().activate(problem.activation, made.z, made.up, made.a);
  return made;
}

inline void keep_for_backward(Rank& rank, HiddenActivations made) {
  rank.keep("z", std::move(made.z));
  rank.keep("up", std::move(made.up));
  rank.keep("a", std::move(made.a));
}

// a w2 of this rank's hidden units, [tokens, outputs] in the accumulator's type.
inline Tensor project_hidden_units(Rank& rank, const View& a) {
  const Problem& problem = rank.problem();
  Tensor y = rank.make(accumulator_of(problem.dtype), {problem.tokens, problem.outputs});
  rank.device().gemm(a, rank.get("w2"), y, {.operand = precision_of(problem).operand});
  return y;
}

// The same from x, keeping what the backward pass needs.
inline Tensor hidden_units_forward(Rank& rank) {
  HiddenActivations made = activate_hidden_units(rank);
  Tensor y = project_hidden_units(rank, made.a);
  keep_for_backward(rank, std::move(made));
  return y;
}

// Stores the gradients of this rank's weights and returns its share of dx, [tokens, features] in
// the accumulator's type.
inline Tensor hidden_units_backward(Rank& rank) {
  const Problem& problem = rank.problem();
  const View x = rank.get("x");
  const View dy = rank.get("dy");
  const View& z = rank.kept("z");
  const View& up = rank.kept("up");
  Tensor da = rank.make(problem.dtype, z.shape);
  Tensor dz = rank.make(problem.dtype, z.shape);
  Tensor dup;
  if (problem.gated) dup = rank.make(problem.dtype, z.shape);
  linear_input_gradient(rank, dy, rank.get("w2"), da, false);
  linear_weight_gradients(rank, rank.kept("a"), dy, rank.get("dw2"), rank.get("db2"));
  rank.device().activate_backward(problem.activation, z, up, da, dz, dup);
  linear_weight_gradients(rank, x, dz, rank.get("dw1"), rank.get("db1"));
  Tensor dx = rank.make(accumulator_of(problem.dtype), x.shape);
  linear_input_gradient(rank, dz, rank.get("w1"), dx, false);
  if (problem.gated) {
    linear_weight_gradients(rank, x, dup, rank.get("dwg"), rank.get("dbg"));
    linear_input_gradient(rank, dup, rank.get("wg"), dx, true);
  }
  return dx;
}

// y = sum + b2: b2 belongs to no hidden unit, so it is added to the complete sum.
inline void store_outputs(Rank& rank, const View& sum) {
  rank.device().add_row(rank.get("b2"), sum);
  rank.device().copy(sum, rank.get("y"));
}

inline Contract hidden_units_contract(const Case& value, int parts) {
  return {.precision = precision_of(value.problem),
          .partitions = {
              .queries = {}, .keys = {}, .summed = even_partition(value.problem.hidden, parts)}};
}

}  // namespace shardproof
