// Words: what a sequence of tokens consists of. The same whatever the recipe of the other data.
#pragma once

#include <cstdint>

#include "harness/model/element.h"

namespace shardproof {

// A word of the vocabulary, or -1 for the share of tokens that are nobody's target, from 64 random
// bits.
inline double drawn_word(const Problem& problem, std::uint64_t bits) {
  const double share = static_cast<double>(mix(bits) >> 11) * 0x1p-53;  // in [0, 1)
  if (share < problem.ignored) return -1;
  return static_cast<double>(bits % static_cast<std::uint64_t>(problem.vocab));
}

}  // namespace shardproof
