// The NCCL world: the processes of the MPI world, each with a GPU, which move the data themselves.
// MPI starts the ranks, tells them each other's ids and checks, through the host, that they agree.
#include <algorithm>
#include <string>

#include "harness/worlds/mpi.h"
#include "harness/worlds/mpi_record.h"

namespace shardproof {
namespace {

constexpr std::string_view kDevice = "cuda";
// The first case pays for contexts, libraries and communicators.
constexpr double kLeastSeconds = 60;

const DeviceEntry* find_device(const std::vector<DeviceEntry>& devices) {
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [](const DeviceEntry& each) { return each.name == kDevice; });
  return found == devices.end() ? nullptr : &*found;
}

std::string unavailable(const std::vector<DeviceEntry>& devices) {
  if (std::string why = why_no_mpi(); !why.empty()) return why;
  const DeviceEntry* device = find_device(devices);
  if (device == nullptr) return "there is no device cuda";
  if (std::string why = device->unavailable(); !why.empty()) return why;
  if (device->cannot_carry == nullptr) return "the program was built without NCCL (nccl.h)";
  return device->cannot_carry(1);
}

std::unique_ptr<World> make(std::vector<DeviceEntry> devices) {
  MpiOptions options = mpi_options();
  options.run_seconds = kLeastSeconds;
  options.unsupported = find_device(devices)->cannot_carry;
  return make_mpi(std::move(options));
}

}  // namespace

WorldEntry nccl_world() {
  return {
      .name = kNcclWorld,
      .summary = "as mpi, each rank with a GPU; data moves between GPUs by NCCL",
      .unavailable = unavailable,
      .make = make,
      .device = kDevice,
  };
}

}  // namespace shardproof
