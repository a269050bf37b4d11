// The hidden units of an mlp that one rank computes: z = x w1 + b1, a = act(z) or, gated,
// act(z) * (x wg + bg), and their share of y = a w2. All of them on a rank that is alone.
#pragma once

#include "parallel_impls/linear.h"
#include "parallel_impls/shards.h"

namespace shardproof {

// The weights of a rank's hidden units, or their gradients.
struct HiddenWeights {
  View w1;  // [features, units]
  View b1;  // [units]
  View wg;  // as w1 and b1; data null where there is no gate
  View bg;
  View w2;  // [units, outputs]
};

inline HiddenWeights own_weights(Rank& rank) {
  const bool gated = rank.problem().gated;
  return {rank.get("w1"), rank.get("b1"), gated ? rank.get("wg") : View{},
          gated ? rank.get("bg") : View{}, rank.get("w2")};
}
inline HiddenWeights own_weight_gradients(Rank& rank) {
  const bool gated = rank.problem().gated;
  return {rank.get("dw1"), rank.get("db1"), gated ? rank.get("dwg") : View{},
          gated ? rank.get("dbg") : View{}, rank.get("dw2")};
}

// What the backward pass needs of the forward pass besides the inputs.
struct HiddenActivations {
  Tensor z, up, a;  // up: empty unless gated
};

inline HiddenActivations activate_hidden_units(Rank& rank, const HiddenWeights& weights) {
  const Problem& problem = rank.problem();
  const Index hidden = weights.w1.shape[1];
  const View x = rank.get("x");
  HiddenActivations made;
  made.z = rank.make(problem.dtype, {problem.tokens, hidden});
  made.a = rank.make(problem.dtype, {problem.tokens, hidden});
  linear(rank, x, weights.w1, weights.b1, made.z);
  if (problem.gated) {
    made.up = rank.make(problem.dtype, {problem.tokens, hidden});
    linear(rank, x, weights.wg, weights.bg, made.up);
  }
  rank.device().activate(problem.activation, made.z, made.up, made.a);
  return made;
}

inline void keep_for_backward(Rank& rank, HiddenActivations made) {
  rank.keep("z", std::move(made.z));
  rank.keep("up", std::move(made.up));
  rank.keep("a", std::move(made.a));
}

// a w2 of these hidden units, [tokens, outputs] in the accumulator's type.
inline Tensor project_hidden_units(Rank& rank, const HiddenWeights& weights, const View& a) {
  const Problem& problem = rank.problem();
  Tensor y = rank.make(accumulator_of(problem.dtype), {problem.tokens, problem.outputs});
  rank.device().gemm(a, weights.w2, y, {.operand = precision_of(problem).operand});
  return y;
}

// The same from x. Keeps z, up and a.
inline Tensor hidden_units_forward(Rank& rank, const HiddenWeights& weights) {
  HiddenActivations made = activate_hidden_units(rank, weights);
  Tensor y = project_hidden_units(rank, weights, made.a);
  keep_for_backward(rank, std::move(made));
  return y;
}

inline Tensor hidden_units_forward(Rank& rank) {
  return hidden_units_forward(rank, own_weights(rank));
}

// Stores the gradients of these weights and db2, and returns their share of dx, [tokens, features]
// in the accumulator's type.
inline Tensor hidden_units_backward(Rank& rank, const HiddenWeights& weights,
                                    const HiddenWeights& gradients) {
  const Problem& problem = rank.problem();
  const View x = rank.get("x");
  const View dy = rank.get("dy");
  const View& z = rank.kept("z");
  const View& up = rank.kept("up");
  Tensor da = rank.make(problem.dtype, z.shape);
  Tensor dz = rank.make(problem.dtype, z.shape);
  Tensor dup;
  if (problem.gated) dup = rank.make(problem.dtype, z.shape);
  linear_input_gradient(rank, dy, weights.w2, da, false);
  linear_weight_gradients(rank, rank.kept("a"), dy, gradients.w2, rank.get("db2"));
  rank.device().activate_backward(problem.activation, z, up, da, dz, dup);
  linear_weight_gradients(rank, x, dz, gradients.w1, gradients.b1);
  Tensor dx = rank.make(accumulator_of(problem.dtype), x.shape);
  linear_input_gradient(rank, dz, weights.w1, dx, false);
  if (problem.gated) {
    linear_weight_gradients(rank, x, dup, gradients.wg, gradients.bg);
    linear_input_gradient(rank, dup, weights.wg, dx, true);
  }
  return dx;
}

inline Tensor hidden_units_backward(Rank& rank) {
  return hidden_units_backward(rank, own_weights(rank), own_weight_gradients(rank));
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
