// The steps between a golden and its bytes on disk. golden_image and parse_image are inverses;
// place_file leaves the whole file or what was there before.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "golden/golden.h"

namespace shardproof {

// The bytes of the HDF5 file. Throws Error when the golden breaks a rule of the format.
std::vector<std::byte> golden_image(const Golden& golden);

// The inverse. Throws Error. Trusts HDF5 not to crash: for a file of unknown origin call
// read_golden, which keeps this in a child process.
Golden parse_image(std::span<const std::byte> image);

// Temporary name in the same folder (made if missing), fsync, rename, fsync of the folder. Throws
// Error. Where the file system has no files without names, a kill may leave the temporary file
// ".NAME.PID.partial".
void place_file(const std::filesystem::path& path, std::span<const std::byte> bytes);

// The bytes of a regular file of at most `limit` bytes. Throws Error.
std::vector<std::byte> file_bytes(const std::filesystem::path& path, std::int64_t limit);

}  // namespace shardproof
