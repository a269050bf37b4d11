#include "harness/model/mask.h"

namespace shardproof {

const Mask& none_mask() {
  static const Mask mask{
      .name = "none",
      .summary = "every query sees every key",
      .parameters = {},
      .visible = [](const MaskArguments&, Index, Index, Index) { return true; },
      .picture_arguments = {.queries = 2, .keys = 3},
      .picture =
          "###\n"
          "###\n",
  };
  return mask;
}

}  // namespace shardproof
