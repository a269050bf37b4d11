#include "harness/model/mask.h"

namespace shardproof {

const Mask& padding_mask() {
  static const Mask mask{
      .name = "padding",
      .summary = "batch entry b has keys 0..valid-b-1, the rest is padding",
      .parameters = {{"valid", 0, [](Index, Index keys) { return keys; }}},
      .visible = [](const MaskArguments& m, Index batch, Index,
                    Index key) { return key < m.a - batch; },
      .picture_arguments = {.queries = 2, .keys = 4, .a = 3},
      .picture =
          "###.\n"
          "###.\n",
  };
  return mask;
}

}  // namespace shardproof
