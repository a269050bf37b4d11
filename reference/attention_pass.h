// One pass of the attention reference over every batch entry, key/value head, query block, query
// head and tile, in this order. A visitor sees each tile while it is in hand: the bounds are one.
#pragma once

#include <algorithm>

#include "reference/attention_tile.h"

namespace shardproof {

// Writes what a finished tile or group holds to the whole tensors.
template <class T>
void scatter_tile(const Problem& problem, const AttentionPlan& plan, const KeyGroup<T>& group,
                  const QueryTile<T>& tile, AttentionValues<T>& values);
template <class T>
void scatter_group(const Problem& problem, const AttentionPlan& plan, const KeyGroup<T>& group,
                   AttentionValues<T>& values);

// Zero everywhere, -infinity for lse.
template <class T>
AttentionValues<T> empty_values(const Problem& problem);

template <class T, class Visitor>
AttentionValues<T> attention_pass(const Problem& problem, const AttentionPlan& plan,
                                  const AttentionInputs<T>& inputs, Visitor&& visitor) {
  AttentionValues<T> values = empty_values<T>(problem);
  KeyGroup<T> group;
  QueryTile<T> tile(problem);
  const Index most_rows = tile_rows(problem);
  for (Index batch = 0; batch < problem.batch; ++batch) {
    const BatchMask mask(problem, plan, batch);
    group.batch = batch;
    for (group.kv_head = 0; group.kv_head < problem.kv_heads; ++group.kv_head) {
      gather_group(problem, plan, mask, inputs, group);
      visitor.begin_group(group, mask);
      for (Index block = 0; block < plan.queries.blocks(); ++block) {
        const Index end = plan.queries.start[static_cast<std::size_t>(block) + 1];
        for (tile.head = 0; tile.head < group.heads; ++tile.head) {
          tile.query_block = block;
          for (tile.first = plan.queries.start[static_cast<std::size_t>(block)]; tile.first < end;
               tile.first += tile.rows) {
            tile.rows = std::min(most_rows, end - tile.first);
            tile.first_row = tile.head * problem.q + tile.first;
            tile.visible = mask.visible.data() + tile.first * problem.kv;
            tile.segments = visible_segments(plan, mask, tile.first, tile.rows);
            compute_tile(problem, plan, inputs, group, tile);
            scatter_tile(problem, plan, group, tile, values);
            visitor.visit_tile(group, tile);
          }
        }
        visitor.end_query_block(group);
      }
      scatter_group(problem, plan, group, values);
      visitor.end_group(group, mask);
    }
  }
  return values;
}

}  // namespace shardproof
