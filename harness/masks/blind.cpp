#include "harness/model/mask.h"

namespace shardproof {

const Mask& blind_mask() {
  static const Mask mask{
      .name = "blind",
      .summary = "queries first..first+count-1 see nothing, the others everything",
      .parameters = {{"first", 0, [](Index queries, Index) { return queries; }},
                     {"count", 0, [](Index queries, Index) { return queries; }}},
      .visible = [](const MaskArguments& m, Index, Index query,
                    Index) { return query < m.a || query >= m.a + m.b; },
      .picture_arguments = {.queries = 4, .keys = 2, .a = 1, .b = 2},
      .picture =
          "##\n"
          "..\n"
          "..\n"
          "##\n",
  };
  return mask;
}

}  // namespace shardproof
