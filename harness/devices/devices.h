// The table of devices.
#pragma once

#include <vector>

#include "harness/run/world.h"

namespace shardproof {

std::vector<DeviceEntry> all_devices();

}  // namespace shardproof
