// How much memory this process has asked for.
#pragma once

#include <cstdint>

namespace shardproof {

// Bytes that it could fill: heap and writable private mappings, touched or not. 0 where that says
// nothing, because a sanitizer reserves terabytes.
std::uint64_t data_bytes();

}  // namespace shardproof
