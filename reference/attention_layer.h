// A self-attention layer: q, k, v = x wq + bq, x wk + bk, x wv + bv per head, attention among the
// tokens of a batch entry, y = out wo + bo, and all gradients of sum(dy * y).
#pragma once

#include "harness/model/operator.h"

namespace shardproof {

const Operator& attention_layer_operator();

// Its `evaluate`.
Expected evaluate_attention_layer(const Problem& problem, const Contract& contract, Effort effort);

}  // namespace shardproof
