// make_nccl_carrier: what moves data between devices of one side (api.h).
#pragma once

#include <memory>

#include "harness/devices/cuda/queue.h"
#include "harness/run/device.h"

namespace shardproof::SHARDPROOF_SIDE {

// Of the device whose work is on `queue`; null where the program was built without NCCL.
std::unique_ptr<Carrier> make_nccl_carrier(Device& device, Queue& queue);

}  // namespace shardproof::SHARDPROOF_SIDE
