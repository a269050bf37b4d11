#include "harness/devices/devices.h"

namespace shardproof {

#define DEVICE(name) DeviceEntry name##_device();
#include "harness/devices/devices.def"
#undef DEVICE

std::vector<DeviceEntry> all_devices() {
  return {
#define DEVICE(name) name##_device(),
#include "harness/devices/devices.def"
#undef DEVICE
  };
}

}  // namespace shardproof
