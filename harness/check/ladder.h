// Ladder: between which contracts a run stands: the tightest that it still keeps and the next one,
// which it breaks; or, when it breaks its own, the looser one that it keeps.
#pragma once

#include <string>

#include "harness/check/property.h"

namespace shardproof {

// "holds as probability=bf16 score_gradient=f32; fails as probability=f32", about a completed run.
// Names the types that matter to its results; empty where no contract is tighter, and for large
// problems.
std::string ladder(const Run& run);

}  // namespace shardproof
