// A golden as plain bytes, in which the reading child hands it to its parent. from_bytes checks
// every length and every value: it trusts the child no more than the file.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "golden/golden.h"

namespace shardproof {

std::vector<std::byte> to_bytes(const Golden& golden);

// The inverse. Throws Error.
Golden from_bytes(std::span<const std::byte> bytes);

}  // namespace shardproof
