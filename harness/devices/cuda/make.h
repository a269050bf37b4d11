// make_device: a rank's device of one side (api.h).
#pragma once

#include <memory>
#include <string>

#include "harness/run/device.h"

namespace shardproof {

namespace cuda {
std::unique_ptr<Device> make_device();

// Why a GPU cannot be used here, or an empty string. Asks in a child process: one that has asked
// the driver itself cannot fork workers that compute.
std::string why_unusable();
}  // namespace cuda

namespace cuda_double {
std::unique_ptr<Device> make_device();
}

}  // namespace shardproof
