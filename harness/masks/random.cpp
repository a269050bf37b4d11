#include "harness/model/element.h"
#include "harness/model/mask.h"

namespace shardproof {

const Mask& random_mask() {
  static const Mask mask{
      .name = "random",
      .summary = "each pair is visible with the given chance in percent, independently",
      .parameters = {{"percent", 0, [](Index, Index) { return Index{100}; }}},
      .visible =
          [](const MaskArguments& m, Index batch, Index query, Index key) {
            const auto position =
                static_cast<std::uint64_t>((batch * m.queries + query) * m.keys + key);
            return static_cast<Index>(mix(mix(m.seed) + position) % 100) < m.a;
          },
      .picture_arguments = {.queries = 2, .keys = 3, .a = 100},
      .picture =
          "###\n"
          "###\n",
  };
  return mask;
}

}  // namespace shardproof
