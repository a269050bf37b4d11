#include "harness/model/mask.h"

namespace shardproof {

std::string MaskChoice::text() const {
  std::string result(mask->name);
  const std::array<Index, 2> values{a, b};
  for (std::size_t i = 0; i < mask->parameters.size(); ++i) {
    result += (i == 0 ? ":" : ",") + std::to_string(values[i]);
  }
  return result;
}

}  // namespace shardproof
