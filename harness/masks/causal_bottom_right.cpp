#include "harness/model/mask.h"

namespace shardproof {

const Mask& causal_bottom_right_mask() {
  static const Mask mask{
      .name = "causal_bottom_right",
      .summary =
          "the last query sees every key, each earlier one a key less; "
          "with more queries than keys the first rows see nothing",
      .parameters = {},
      .visible = [](const MaskArguments& m, Index, Index query,
                    Index key) { return key - m.keys <= query - m.queries; },
      .picture_arguments = {.queries = 4, .keys = 3},
      .picture =
          "...\n"
          "#..\n"
          "##.\n"
          "###\n",
  };
  return mask;
}

}  // namespace shardproof
