// y = x w + b on one rank, and its gradients.
#pragma once

#include "harness/run/rank.h"
#include "parallel_impls/precision.h"

namespace shardproof {

// [tokens, everything else] of a dense tensor whose first `leading` dimensions count tokens.
inline View as_matrix(const View& tensor, int leading) {
  Index tokens = 1;
  Index others = 1;
  for (int d = 0; d < tensor.shape.rank(); ++d) {
    (d < leading ? tokens : others) *= tensor.shape[d];
  }
  return tensor.reshaped({tokens, others});
}

inline View as_vector(const View& tensor) { return tensor.reshaped({tensor.elements()}); }

// y [tokens, n] = x [tokens, m] w [m, n] + b [n], rounded once to y's dtype.
inline void linear(Rank& rank, const View& x, const View& w, const View& b, const View& y) {
  Device& device = rank.device();
  device.fill(y, 0);
  device.add_row(b, y);
  device.gemm(x, w, y, {.accumulate = true, .operand = precision_of(rank.problem()).operand});
}

// dw = x^T dy, db = column sums of dy.
inline void linear_weight_gradients(Rank& rank, const View& x, const View& dy, const View& dw,
                                    const View& db) {
  const DType operand = precision_of(rank.problem()).operand;
  rank.device().gemm(x, dy, dw, {.transpose_a = true, .operand = operand});
  rank.device().column_sums(dy, db);
}

// dx = dy w^T, or dx += dy w^T.
inline void linear_input_gradient(Rank& rank, const View& dy, const View& w, const View& dx,
                                  bool accumulate) {
  const DType operand = precision_of(rank.problem()).operand;
  rank.device().gemm(dy, w, dx,
                     {.transpose_b = true, .accumulate = accumulate, .operand = operand});
}

}  // namespace shardproof
