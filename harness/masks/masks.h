// The table of masks.
#pragma once

#include <vector>

#include "harness/model/mask.h"

namespace shardproof {

std::vector<const Mask*> all_masks();

}  // namespace shardproof
