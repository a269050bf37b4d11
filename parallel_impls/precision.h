// The precision that every subject here is written in: f32 arithmetic (f64 for f64 problems)
// between tensors stored in the problem's dtype.
#pragma once

#include "harness/model/case.h"
#include "harness/model/contract.h"

namespace shardproof {

inline bool is_16_bit(DType dtype) { return dtype == DType::kBf16 || dtype == DType::kF16; }

inline Precision precision_of(const Problem& problem) {
  const DType io = problem.dtype;
  const DType accumulator = accumulator_of(io);
  const DType factor = is_16_bit(io) ? io : accumulator;  // P and dS, as flash kernels store them
  return {
      .io = io,
      .accumulator = accumulator,
      .elementwise = accumulator,
      .score = accumulator,
      .probability = factor,
      .score_gradient = factor,
      .saved_out = io,
      .lse = accumulator,
      .block_out = accumulator,
      .query_gradient = accumulator,
      .kv_gradient = accumulator,
      .operand = io == DType::kTf32 ? io : accumulator,
      .middle = io,
      .reduction = accumulator,
  };
}

// q and k that rotary positions turned, as kernels keep them in registers: not rounded to 16 bits.
inline DType turned_type(const Problem& problem) {
  return is_16_bit(problem.dtype) ? accumulator_of(problem.dtype) : problem.dtype;
}

inline Precision attention_precision(const Problem& problem) {
  Precision precision = precision_of(problem);
  precision.middle = turned_type(problem);
  return precision;
}

}  // namespace shardproof
