// The table of properties.
#pragma once

#include <vector>

#include "harness/check/property.h"

namespace shardproof {

std::vector<const Property*> all_properties();

}  // namespace shardproof
