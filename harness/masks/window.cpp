#include "harness/model/mask.h"

namespace shardproof {

const Mask& window_mask() {
  static const Mask mask{
      .name = "window",
      .summary = "query i sees keys i-left..i+right",
      .parameters = {{"left", 0, [](Index, Index keys) { return keys; }},
                     {"right", 0, [](Index, Index keys) { return keys; }}},
      .visible = [](const MaskArguments& m, Index, Index query,
                    Index key) { return key >= query - m.a && key <= query + m.b; },
      .picture_arguments = {.queries = 4, .keys = 4, .a = 1, .b = 0},
      .picture =
          "#...\n"
          "##..\n"
          ".##.\n"
          "..##\n",
  };
  return mask;
}

}  // namespace shardproof
