// An HDF5 file in memory: built there, so that HDF5 never meets a full disk, and read from there,
// so that it sees one state of the file.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "golden/hdf5_handle.h"

namespace shardproof {

// The bytes of a file made with the properties `creation` and filled by `fill`. It is written in
// the format of HDF5 1.10, which checksums everything it stores.
std::vector<std::byte> built_in_memory(hid_t creation, const std::function<void(hid_t file)>& fill);

// Opens a copy of the bytes of a file, read only.
Handle open_in_memory(std::span<const std::byte> image);

}  // namespace shardproof
