#include "harness/model/mask.h"

namespace shardproof {

const Mask& prefix_mask() {
  static const Mask mask{
      .name = "prefix",
      .summary = "causal, and everybody sees the first `length` keys (prefix language model)",
      .parameters = {{"length", 0, [](Index, Index keys) { return keys; }}},
      .visible = [](const MaskArguments& m, Index, Index query,
                    Index key) { return key < m.a || key <= query; },
      .picture_arguments = {.queries = 3, .keys = 4, .a = 2},
      .picture =
          "##..\n"
          "##..\n"
          "###.\n",
  };
  return mask;
}

}  // namespace shardproof
