#include "harness/devices/cuda/make.h"
#include "harness/run/world.h"

namespace shardproof {

DeviceEntry cuda_double_device() {
  return {
      .name = "cuda-double",
      .summary = "the sources of cuda on the CPU, over doubles of CUDA and cuBLAS: no GPU needed",
      .unavailable = [] { return std::string(); },
      .make = &cuda_double::make_device,
  };
}

}  // namespace shardproof
