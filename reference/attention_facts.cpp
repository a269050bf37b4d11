// What the bounds need to know of the operands of one key/value head.
#include <algorithm>
#include <cmath>

#include "reference/attention_bound.h"

namespace shardproof {
namespace {

std::size_t size_of(Index rows, Index columns) { return static_cast<std::size_t>(rows * columns); }

void transpose(const Matrix& matrix, Index rows, Index columns, Matrix& result) {
  result.resize(matrix.size());
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j) {
      result[size_of(j, rows) + static_cast<std::size_t>(i)] =
          matrix[size_of(i, columns) + static_cast<std::size_t>(j)];
    }
  }
}

void set_facts(const Matrix& operand, Index width, OperandFacts& facts) {
  const Index rows = static_cast<Index>(operand.size()) / width;
  facts.absolute.resize(operand.size());
  facts.squares.resize(operand.size());
  facts.largest.assign(static_cast<std::size_t>(width), 0.0);
  facts.row_sums.assign(static_cast<std::size_t>(rows), 0.0);
  for (Matrix* errors : {&facts.error_worst, &facts.error_square, &facts.error_common}) {
    errors->clear();
  }
  for (Index row = 0; row < rows; ++row) {
    for (Index d = 0; d < width; ++d) {
      const auto i = static_cast<std::size_t>(row * width + d);
      const double magnitude = std::fabs(operand[i]);
      facts.absolute[i] = magnitude;
      facts.squares[i] = magnitude * magnitude;
      double& largest = facts.largest[static_cast<std::size_t>(d)];
      largest = std::max(largest, magnitude);
      facts.row_sums[static_cast<std::size_t>(row)] += magnitude;
    }
  }
}

// The errors of rows `order` of one head of a tensor [batch, tokens, heads, width], appended.
void append_errors(std::span<const Family> errors, const std::vector<Index>& order, Index batch,
                   Index heads, Index head, Index width, OperandFacts& facts) {
  if (errors.empty()) return;
  const Index tokens = static_cast<Index>(order.size());
  for (Index token : order) {
    const Family* source = errors.data() + ((batch * tokens + token) * heads + head) * width;
    for (Index d = 0; d < width; ++d) {
      facts.error_worst.push_back(source[d].worst);
      facts.error_square.push_back(source[d].square);
      facts.error_common.push_back(source[d].common);
    }
  }
}

void transpose_facts(Index rows, Index width, OperandFacts& facts) {
  transpose(facts.absolute, rows, width, facts.absolute_transposed);
  transpose(facts.squares, rows, width, facts.squares_transposed);
  if (!facts.inexact()) return;
  transpose(facts.error_worst, rows, width, facts.error_worst_transposed);
  transpose(facts.error_square, rows, width, facts.error_square_transposed);
  transpose(facts.error_common, rows, width, facts.error_common_transposed);
}

// Hidden keys carry no error either.
void clear_hidden_errors(const BatchMask& mask, Index width, OperandFacts& facts) {
  if (!facts.inexact()) return;
  for (Matrix* errors : {&facts.error_worst, &facts.error_square, &facts.error_common}) {
    for (std::size_t key = 0; key < mask.queries_of_key.size(); ++key) {
      if (mask.queries_of_key[key] > 0) continue;
      std::fill_n(errors->begin() + static_cast<Index>(key) * width, width, 0.0);
    }
  }
}

}  // namespace

void GroupFacts::set(const BoundContext& context, const KeyGroup<double>& group,
                     const BatchMask& mask) {
  const Problem& p = context.problem;
  const Index rows = group.heads * p.q;
  set_facts(group.q, p.dim, q);
  set_facts(group.dout, p.dim_v, dout);
  set_facts(group.k, p.dim, k);
  set_facts(group.v, p.dim_v, v);
  for (Index head = group.kv_head * group.heads; head < (group.kv_head + 1) * group.heads; ++head) {
    append_errors(context.errors.q, context.plan.queries.global, group.batch, p.heads, head, p.dim,
                  q);
    append_errors(context.errors.dout, context.plan.queries.global, group.batch, p.heads, head,
                  p.dim_v, dout);
  }
  append_errors(context.errors.k, context.plan.keys.global, group.batch, p.kv_heads, group.kv_head,
                p.dim, k);
  append_errors(context.errors.v, context.plan.keys.global, group.batch, p.kv_heads, group.kv_head,
                p.dim_v, v);
  clear_hidden_errors(mask, p.dim, k);
  clear_hidden_errors(mask, p.dim_v, v);
  transpose_facts(p.kv, p.dim, k);
  transpose_facts(p.kv, p.dim_v, v);
  // A sink has the value 0, and what dropout leaves out counts as 0.
  const bool zero = p.sink || context.dropout;
  v_low.assign(static_cast<std::size_t>(p.dim_v), zero ? 0 : kUnbounded);
  v_high.assign(static_cast<std::size_t>(p.dim_v), zero ? 0 : -kUnbounded);
  for (std::size_t key = 0; key < mask.queries_of_key.size(); ++key) {
    if (mask.queries_of_key[key] == 0) continue;
    for (std::size_t d = 0; d < v_low.size(); ++d) {
      const double value = context.factor * group.v[key * v_low.size() + d];
      v_low[d] = std::min(v_low[d], value);
      v_high[d] = std::max(v_high[d], value);
    }
  }
  keys_multiplicity = row_multiplicity(group.k.data(), p.kv, p.dim);
  values_multiplicity = row_multiplicity(group.v.data(), p.kv, p.dim_v);
  queries_multiplicity = std::max(row_multiplicity(group.q.data(), rows, p.dim),
                                  row_multiplicity(group.dout.data(), rows, p.dim_v));
  logit_multiplicity = std::min(column_multiplicity(group.q.data(), rows, p.dim),
                                column_multiplicity(group.k.data(), p.kv, p.dim));
  dp_multiplicity = std::min(column_multiplicity(group.dout.data(), rows, p.dim_v),
                             column_multiplicity(group.v.data(), p.kv, p.dim_v));
}

}  // namespace shardproof
