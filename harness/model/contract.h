// Contract: what a subject promises about precision, determinism and cost. Every field is declared
// by whoever wrote the subject; none is tuned. Bounds are derived from it and from nothing else.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/model/dtype.h"
#include "harness/model/shape.h"

namespace shardproof {

// The global indices of one dimension that each rank (or ring step) holds.
using Partition = std::vector<std::vector<Index>>;

// Where roundings happen (numerics: "Contract fields"). The order of summation is never declared:
// bounds hold for any order and any tree.
struct Precision {
  DType io = DType::kF32;              // inputs (exact) and every returned tensor
  DType accumulator = DType::kF32;     // of every matrix product
  bool truncating = false;             // the accumulator rounds toward zero
  DType elementwise = DType::kF32;     // arithmetic of softmax, activation, norm
  DType score = DType::kF32;           // in which S = q k^T and dP are materialised
  DType probability = DType::kF32;     // of P before P v and P^T dout
  DType score_gradient = DType::kF32;  // of dS before dS k and dS^T q
  DType saved_out = DType::kF32;       // of the out from which delta = rowsum(dout * out) is formed
  DType lse = DType::kF32;             // of lse between forward and backward, and as an output
  DType block_out = DType::kF32;       // merge mode: of a ring step's out handed to the merge
  DType query_gradient = DType::kF32;  // accumulator of dq across ring steps
  DType kv_gradient = DType::kF32;     // travelling accumulator of dk and dv
  DType operand = DType::kF32;  // operands are rounded to this in every product when narrower than
                                // io (tf32); otherwise they are exact
  DType middle = DType::kF32;   // tensors between two products of one operator (z, a, dA, dZ of an
                                // mlp; projected q, k, v and attention output of a layer), and q
                                // and k that rotary positions turned
  DType reduction = DType::kF32;  // of values added by an all-reduce or reduce-scatter
  bool merge_blocks = false;  // ring: normalised blocks are merged (true) or the running (maximum,
                              // normaliser, accumulator) is carried (false)
  int rescales = 1;           // online-softmax rescales per row
  double ulp_exp = 3;         // library errors in units in the last place
  double ulp_log = 3;
  double ulp_tanh = 2;
  double ulp_erf = 1;
};

// Which rank holds what, as far as roundings depend on it.
struct Partitions {
  Partition queries;  // ring: the query blocks that contribute to dk, dv one after another
  Partition keys;     // ring: the key blocks that contribute to out, dq one after another
  Partition summed;   // the contracted dimension of every all-reduce (hidden units, heads, parts)
};

struct Contract {
  Precision precision;
  Partitions partitions;
  bool bitwise_across_schedules = true;
  bool bitwise_repeatable = true;
  bool hidden_may_be_nan = true;  // keys and values that no query sees may hold NaN
};

enum class Phase { kForward, kBackward };

// How often one rank takes part in one kind of communication along one axis in one phase, and how
// many payload bytes it hands in, all calls together.
struct Traffic {
  Phase phase = Phase::kForward;
  std::string operation;  // "all_reduce", "send", ... as the trace names it
  std::string axis;
  Index calls = 0;
  Index bytes = 0;

  bool operator==(const Traffic&) const = default;
};

// What one rank may cost. Anything not stated is not promised.
struct Cost {
  std::optional<std::vector<Traffic>> traffic;  // exact; empty: silent
  std::optional<Index>
      kv_resident_bytes;                 // most bytes alive in buffers that received k or v blocks
  std::optional<double> score_elements;  // q.k products that the forward pass computes
};

}  // namespace shardproof
