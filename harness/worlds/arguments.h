// Arguments: what every communicator refuses before it does anything. Each throws
// std::invalid_argument that names the operation.
#pragma once

#include <span>
#include <string_view>

#include "harness/run/tensor.h"

namespace shardproof {

// Views are dense and have memory.
void check_view(std::string_view operation, const View& data);

// A peer is a member of the group of `size` ranks along `axis`.
void check_peer(std::string_view operation, int peer, int size, std::string_view axis);

// There is one part for each member.
void check_parts(std::string_view operation, std::span<const View> parts, int size,
                 std::string_view axis);

}  // namespace shardproof
