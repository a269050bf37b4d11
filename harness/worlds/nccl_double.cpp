#include "harness/worlds/sim.h"

namespace shardproof {

WorldEntry nccl_double_world() {
  return {
      .name = "nccl-double",
      .summary = "as sim, but data moves by the sources of nccl over a double of it: no GPU needed",
      .unavailable = [](const std::vector<DeviceEntry>&) { return std::string(); },
      .make =
          [](std::vector<DeviceEntry> devices) {
            return make_simulated(std::move(devices), Moving::kByDevices);
          },
      .device = "cuda-double",
  };
}

}  // namespace shardproof
