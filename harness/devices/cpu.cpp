#include "harness/devices/cpu.h"

#include "harness/run/world.h"

namespace shardproof {

DeviceEntry cpu_device() {
  return {
      .name = "cpu",
      .summary = "OpenBLAS and plain loops; 16-bit and tf32 storage, f32 arithmetic",
      .unavailable = [] { return std::string(); },
      .make = [] { return std::unique_ptr<Device>(std::make_unique<CpuDevice>()); },
  };
}

}  // namespace shardproof
