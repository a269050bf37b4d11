// The simulated world, made as other worlds need it that run ranks as fibers, too.
#pragma once

#include <memory>
#include <vector>

#include "harness/run/world.h"

namespace shardproof {

// Who moves data from rank to rank: the world, through the host, or what devices have for it
// (run/carrier.h).
enum class Moving { kByHost, kByDevices };

std::unique_ptr<World> make_simulated(std::vector<DeviceEntry> devices, Moving moving);

}  // namespace shardproof
