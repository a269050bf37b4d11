#include <algorithm>

#include "reference/attention_tile.h"
#include "reference/eight.h"

namespace shardproof {
namespace {

// Rows `order` of head `head` of a tensor [batch, tokens, heads, width].
template <class T>
void gather_rows(std::span<const T> tensor, const std::vector<Index>& order, Index batch,
                 Index heads, Index head, Index width, std::vector<T>& rows) {
  const Index tokens = static_cast<Index>(order.size());
  for (Index token : order) {
    const T* source = tensor.data() + ((batch * tokens + token) * heads + head) * width;
    rows.insert(rows.end(), source, source + width);
  }
}

template <class T>
void transpose(const std::vector<T>& matrix, Index rows, Index columns, std::vector<T>& result) {
  result.resize(matrix.size());
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j) {
      result[static_cast<std::size_t>(j * rows + i)] =
          matrix[static_cast<std::size_t>(i * columns + j)];
    }
  }
}

template <class T>
void clear_hidden_rows(const BatchMask& mask, Index width, std::vector<T>& rows) {
  for (std::size_t key = 0; key < mask.queries_of_key.size(); ++key) {
    if (mask.queries_of_key[key] > 0) continue;
    std::fill_n(rows.begin() + static_cast<Index>(key) * width, width, T{0});
  }
}

}  // namespace

template <class T>
void gather_group(const Problem& problem, const AttentionPlan& plan, const BatchMask& mask,
                  const AttentionInputs<T>& inputs, KeyGroup<T>& group) {
  const Index batch = group.batch;
  const Index kv_head = group.kv_head;
  for (std::vector<T>* rows :
       {&group.q, &group.dout, &group.dlse, &group.k, &group.v, &group.sink}) {
    rows->clear();
  }
  group.heads = problem.heads / problem.kv_heads;
  for (Index head = kv_head * group.heads; head < (kv_head + 1) * group.heads; ++head) {
    gather_rows(inputs.q, plan.queries.global, batch, problem.heads, head, problem.dim, group.q);
    if (problem.sink) group.sink.push_back(inputs.sink[static_cast<std::size_t>(head)]);
    gather_rows(inputs.dout, plan.queries.global, batch, problem.heads, head, problem.dim_v,
                group.dout);
    for (Index query : plan.queries.global) {
      const Index at = (batch * problem.heads + head) * problem.q + query;
      group.dlse.push_back(inputs.dlse.empty() ? T{0} : inputs.dlse[static_cast<std::size_t>(at)]);
    }
  }
  gather_rows(inputs.k, plan.keys.global, batch, problem.kv_heads, kv_head, problem.dim, group.k);
  gather_rows(inputs.v, plan.keys.global, batch, problem.kv_heads, kv_head, problem.dim_v, group.v);
  clear_hidden_rows(mask, problem.dim, group.k);
  clear_hidden_rows(mask, problem.dim_v, group.v);
  transpose(group.k, problem.kv, problem.dim, group.k_transposed);
  transpose(group.v, problem.kv, problem.dim_v, group.v_transposed);
  group.dk.assign(group.k.size(), T{0});
  group.dv.assign(group.v.size(), T{0});
}

template void gather_group(const Problem&, const AttentionPlan&, const BatchMask&,
                           const AttentionInputs<double>&, KeyGroup<double>&);
template void gather_group(const Problem&, const AttentionPlan&, const BatchMask&,
                           const AttentionInputs<long double>&, KeyGroup<long double>&);
template void gather_group(const Problem&, const AttentionPlan&, const BatchMask&,
                           const AttentionInputs<Eight>&, KeyGroup<Eight>&);

}  // namespace shardproof
