#include "harness/devices/cuda/make.h"
#include "harness/run/world.h"

namespace shardproof {

#ifdef SHARDPROOF_HAS_CUDA

DeviceEntry cuda_device() {
  return {
      .name = "cuda",
      .summary = "cuBLAS and kernels on a GPU; f32 arithmetic, 16-bit and tf32 storage",
      .unavailable = &cuda::why_unusable,
      .make = &cuda::make_device,
#ifdef SHARDPROOF_HAS_NCCL
      .cannot_carry = &cuda::why_cannot_carry,
#endif
      .choose = &cuda::choose_gpu,
      .about = &cuda::about,
  };
}

#else

DeviceEntry cuda_device() {
  return {
      .name = "cuda",
      .summary = "cuBLAS and kernels on a GPU; f32 arithmetic, 16-bit and tf32 storage",
      .unavailable = [] { return std::string("the program was built without nvcc"); },
      .make = [] { return std::unique_ptr<Device>(); },
  };
}

#endif

}  // namespace shardproof
