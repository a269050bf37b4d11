// make_device: a rank's device of one side (api.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/run/device.h"

namespace shardproof {

namespace cuda {
std::unique_ptr<Device> make_device();

// Entries of DeviceEntry (run/world.h). The driver is asked in a child process.
std::string why_unusable();
std::string why_cannot_carry(int ranks);
void choose_gpu(int number);
std::vector<std::string> about();
}  // namespace cuda

namespace cuda_double {
std::unique_ptr<Device> make_device();
}

}  // namespace shardproof
