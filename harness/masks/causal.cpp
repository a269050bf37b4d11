#include "harness/model/mask.h"

namespace shardproof {

const Mask& causal_mask() {
  static const Mask mask{
      .name = "causal",
      .summary = "query i sees keys 0..i (aligned at the top left)",
      .parameters = {},
      .visible = [](const MaskArguments&, Index, Index query, Index key) { return key <= query; },
      .picture_arguments = {.queries = 3, .keys = 4},
      .picture =
          "#...\n"
          "##..\n"
          "###.\n",
  };
  return mask;
}

}  // namespace shardproof
