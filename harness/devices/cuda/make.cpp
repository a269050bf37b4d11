#include "harness/devices/cuda/make.h"

#include "harness/devices/cuda/device.h"

namespace shardproof::SHARDPROOF_SIDE {

std::unique_ptr<Device> make_device() { return std::make_unique<CudaDevice>(); }

}  // namespace shardproof::SHARDPROOF_SIDE
