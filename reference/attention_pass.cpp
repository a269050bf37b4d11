#include "reference/attention_pass.h"

#include <limits>

#include "reference/attention_rotary.h"
#include "reference/eight.h"

namespace shardproof {
namespace {

struct NoVisitor {
  template <class T>
  void begin_group(const KeyGroup<T>&, const BatchMask&) {}
  template <class T>
  void visit_tile(const KeyGroup<T>&, const QueryTile<T>&) {}
  template <class T>
  void end_query_block(const KeyGroup<T>&) {}
  template <class T>
  void end_group(const KeyGroup<T>&, const BatchMask&) {}
};

}  // namespace

template <class T>
AttentionValues<T> empty_values(const Problem& p) {
  const auto size = [](Index a, Index b, Index c, Index d) {
    return static_cast<std::size_t>(a * b * c * d);
  };
  AttentionValues<T> values;
  values.out.resize(size(p.batch, p.q, p.heads, p.dim_v));
  values.lse.resize(size(p.batch, p.heads, p.q, 1), T(-std::numeric_limits<double>::infinity()));
  values.dq.resize(size(p.batch, p.q, p.heads, p.dim));
  values.dk.resize(size(p.batch, p.kv, p.kv_heads, p.dim));
  values.dv.resize(size(p.batch, p.kv, p.kv_heads, p.dim_v));
  if (p.bias == ScoreBias::kDense) values.dbias.resize(size(p.heads, p.q, p.kv, 1));
  if (p.sink) values.dsink.resize(size(p.heads, 1, 1, 1));
  return values;
}

template <class T>
void scatter_tile(const Problem& problem, const AttentionPlan& plan, const KeyGroup<T>& group,
                  const QueryTile<T>& tile, AttentionValues<T>& values) {
  const Index head = group.kv_head * group.heads + tile.head;
  for (Index row = 0; row < tile.rows; ++row) {
    const Index query = plan.queries.global[static_cast<std::size_t>(tile.first + row)];
    const Index to = (group.batch * problem.q + query) * problem.heads + head;
    std::copy_n(tile.out.begin() + row * problem.dim_v, problem.dim_v,
                values.out.begin() + to * problem.dim_v);
    std::copy_n(tile.dq.begin() + row * problem.dim, problem.dim,
                values.dq.begin() + to * problem.dim);
    values.lse[static_cast<std::size_t>((group.batch * problem.heads + head) * problem.q + query)] =
        tile.lse[static_cast<std::size_t>(row)];
    if (problem.sink) {
      values.dsink[static_cast<std::size_t>(head)] += tile.dsink[static_cast<std::size_t>(row)];
    }
    if (values.dbias.empty()) continue;
    for (const Segment& s : tile.segments) {
      for (Index key = s.first; key < s.last; ++key) {
        const Index position = plan.keys.global[static_cast<std::size_t>(key)];
        values
            .dbias[static_cast<std::size_t>((head * problem.q + query) * problem.kv + position)] +=
            tile.dlogit[static_cast<std::size_t>(row * problem.kv + key)];
      }
    }
  }
}

template <class T>
void scatter_group(const Problem& problem, const AttentionPlan& plan, const KeyGroup<T>& group,
                   AttentionValues<T>& values) {
  for (Index key = 0; key < problem.kv; ++key) {
    const Index position = plan.keys.global[static_cast<std::size_t>(key)];
    const Index to = (group.batch * problem.kv + position) * problem.kv_heads + group.kv_head;
    std::copy_n(group.dk.begin() + key * problem.dim, problem.dim,
                values.dk.begin() + to * problem.dim);
    std::copy_n(group.dv.begin() + key * problem.dim_v, problem.dim_v,
                values.dv.begin() + to * problem.dim_v);
  }
}

template <class T>
AttentionValues<T> attention_values(const Problem& problem, const AttentionInputs<T>& inputs) {
  const TurnedInputs<T> turned(problem, inputs);
  AttentionValues<T> values =
      attention_pass(problem, AttentionPlan(problem, {}), turned.view(), NoVisitor{});
  turn_back(problem, values);
  return values;
}

template AttentionValues<double> empty_values(const Problem&);
template void scatter_tile(const Problem&, const AttentionPlan&, const KeyGroup<double>&,
                           const QueryTile<double>&, AttentionValues<double>&);
template void scatter_group(const Problem&, const AttentionPlan&, const KeyGroup<double>&,
                            AttentionValues<double>&);
template AttentionValues<double> attention_values(const Problem&, const AttentionInputs<double>&);
template AttentionValues<long double> attention_values(const Problem&,
                                                       const AttentionInputs<long double>&);
template AttentionValues<Eight> attention_values(const Problem&, const AttentionInputs<Eight>&);

}  // namespace shardproof
