#include "harness/model/mask.h"

namespace shardproof {
namespace {

// Documents are packed one after another; document d is length + d mod 3 tokens long, so that
// boundaries fall on no regular grid.
Index document_start(const MaskArguments& m, Index position) {
  const Index within = position % (3 * m.a + 3);
  const Index cycle = position - within;
  if (within < m.a) return cycle;
  return cycle + (within < 2 * m.a + 1 ? m.a : 2 * m.a + 1);
}

}  // namespace

const Mask& documents_mask() {
  static const Mask mask{
      .name = "documents",
      .summary =
          "packed documents of length, length+1, length+2, length, ... tokens see only "
          "themselves; causal=1: and no later token",
      .parameters = {{"length", 1, [](Index, Index keys) { return keys > 1 ? keys : 1; }},
                     {"causal", 0, [](Index, Index) { return Index{1}; }}},
      .visible =
          [](const MaskArguments& m, Index, Index query, Index key) {
            return document_start(m, query) == document_start(m, key) && (m.b == 0 || key <= query);
          },
      .picture_arguments = {.queries = 6, .keys = 6, .a = 1, .b = 1},
      .picture =
          "#.....\n"
          ".#....\n"
          ".##...\n"
          "...#..\n"
          "...##.\n"
          "...###\n",
      .document_start = document_start,
  };
  return mask;
}

}  // namespace shardproof
