#include "reference/attention_plan.h"

#include <algorithm>
#include <numeric>

#include "harness/model/require.h"

namespace shardproof {

BlockOrder::BlockOrder(const Partition& partition, Index length) {
  start.push_back(0);
  for (const std::vector<Index>& block : partition) {
    if (block.empty()) continue;
    global.insert(global.end(), block.begin(), block.end());
    start.push_back(static_cast<Index>(global.size()));
  }
  if (global.empty() && length > 0) {
    global.resize(static_cast<std::size_t>(length));
    std::iota(global.begin(), global.end(), Index{0});
    start.push_back(length);
  }
  require(static_cast<Index>(global.size()) == length,
          "a partition holds every position exactly once");
}

BatchMask::BatchMask(const Problem& problem, const AttentionPlan& plan, Index batch)
    : visible(static_cast<std::size_t>(problem.q * problem.kv)),
      queries_of_key(static_cast<std::size_t>(problem.kv)) {
  const MaskArguments arguments = mask_arguments(problem);
  unsigned char* cell = visible.data();
  for (Index query : plan.queries.global) {
    for (std::size_t key = 0; key < queries_of_key.size(); ++key) {
      *cell = problem.mask.mask->visible(arguments, batch, query, plan.keys.global[key]) ? 1 : 0;
      queries_of_key[key] += *cell++;
    }
  }
}

std::vector<Segment> visible_segments(const AttentionPlan& plan, const BatchMask& mask,
                                      Index first_row, Index rows) {
  const Index keys = plan.keys.length();
  std::vector<Segment> segments;
  for (Index block = 0; block < plan.keys.blocks(); ++block) {
    const Index begin = plan.keys.start[static_cast<std::size_t>(block)];
    const Index end = plan.keys.start[static_cast<std::size_t>(block) + 1];
    Segment segment{block, end, begin};
    for (Index row = first_row; row < first_row + rows; ++row) {
      const unsigned char* seen = mask.visible.data() + row * keys;
      Index j = begin;
      while (j < segment.first && !seen[j]) ++j;
      segment.first = std::min(segment.first, j);
      j = end;
      while (j > segment.last && !seen[j - 1]) --j;
      segment.last = std::max(segment.last, j);
    }
    if (segment.first < segment.last) segments.push_back(segment);
  }
  return segments;
}

}  // namespace shardproof
