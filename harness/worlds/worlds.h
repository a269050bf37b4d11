// The table of worlds.
#pragma once

#include <vector>

#include "harness/run/world.h"

namespace shardproof {

std::vector<WorldEntry> all_worlds();

}  // namespace shardproof
