// The attention reference, shared by the operators attention and attention_layer: exact values, and
// for every element what a contract permits. All tensors are whole and row-major, laid out as the
// operator attention names them; key/value head of head h is h / (heads / kv_heads).
#pragma once

#include <span>
#include <vector>

#include "harness/model/bound.h"
#include "harness/model/operator.h"

namespace shardproof {

const Operator& attention_operator();

template <class T>
struct AttentionInputs {
  std::span<const T> q;          // [batch, q, heads, dim]
  std::span<const T> k;          // [batch, kv, kv_heads, dim]
  std::span<const T> v;          // [batch, kv, kv_heads, dim_v]
  std::span<const T> bias;       // [heads, q, kv]; empty unless the problem's bias is dense
  std::span<const T> dout;       // [batch, q, heads, dim_v]
  std::span<const T> dlse;       // [batch, heads, q]; empty: zero
  std::span<const T> sink = {};  // [heads]; empty unless the problem has sinks
};

// By how much computed operands may already be off, element by element, their rounding to
// Precision::middle included (attention_layer: projections). Empty: exact. The error of one element
// is common to everything that reads it; `square`: independent between elements; `common`: what is
// one-sided (underflow, truncation). A relative error that a whole operand shares because its
// roundings to `middle` lean one way is added here, not by the caller.
struct AttentionInputErrors {
  std::span<const Family> q;
  std::span<const Family> k;
  std::span<const Family> v;
  std::span<const Family> dout;

  bool any() const { return !q.empty() || !k.empty() || !v.empty() || !dout.empty(); }
};

template <class T>
struct AttentionValues {
  std::vector<T> out;    // [batch, q, heads, dim_v]; 0 where a query sees no key
  std::vector<T> lse;    // [batch, heads, q]; -infinity, or the sink, where it sees no key
  std::vector<T> dq;     // like q
  std::vector<T> dk;     // like k
  std::vector<T> dv;     // like v
  std::vector<T> dbias;  // like bias
  std::vector<T> dsink;  // like sink
};

// Before the final rounding of each output; Bound::as_family hands them on. Bounds of one query's
// row of `out` are independent between its elements and between heads; rows of different queries
// share the errors of keys and values, so a product that sums over queries must treat them as
// coherent.
struct AttentionBounds {
  std::vector<Bound> out;
  std::vector<Bound> lse;
  std::vector<Bound> dq;
  std::vector<Bound> dk;
  std::vector<Bound> dv;
  std::vector<Bound> dbias;
  std::vector<Bound> dsink;
};

// The values alone, in double or long double. Keys and values that no query of their batch entry
// sees may hold anything, NaN included.
template <class T>
AttentionValues<T> attention_values(const Problem& problem, const AttentionInputs<T>& inputs);

// The values in double together with the bounds of `contract`. Without `need_worst` the worst case
// of large problems is left at infinity; the likely one is the same or slightly larger.
struct AttentionResult {
  AttentionValues<double> values;
  AttentionBounds bounds;
};
AttentionResult attention_bounds(const Problem& problem, const AttentionInputs<double>& inputs,
                                 const AttentionInputErrors& errors, const Contract& contract,
                                 bool need_worst);

}  // namespace shardproof
