#include "harness/model/mask.h"

namespace shardproof {
namespace {

// Documents are packed one after another; document d is length + d mod 3 tokens long, so that
// boundaries fall on no regular grid.
Index document_of(Index length, Index position) {
  const Index cycle = 3 * length + 3;
  const Index document = position / cycle * 3;
  const Index within = position % cycle;
  if (within < length) return document;
  return document + (within < 2 * length + 1 ? 1 : 2);
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
            return document_of(m.a, query) == document_of(m.a, key) && (m.b == 0 || key <= query);
          },
      .picture_arguments = {.queries = 6, .keys = 6, .a = 1, .b = 1},
      .picture =
          "#.....\n"
          ".#....\n"
          ".##...\n"
          "...#..\n"
          "...##.\n"
          "...###\n",
  };
  return mask;
}

}  // namespace shardproof
