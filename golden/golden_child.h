// Work that may crash, hang or exhaust memory, done in a child process with limits. Whatever
// happens there, the caller gets the work's bytes or an Error.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace shardproof {

struct ChildLimits {
  std::size_t memory_bytes = std::size_t{4} << 30;  // on top of what the parent has mapped
  int processor_seconds = 30;
  std::chrono::milliseconds wall{60000};
  std::size_t answer_bytes = std::size_t{3} << 30;
};

// The bytes that `work` returns. Throws Error: the text of an Error that `work` threw, or how the
// child ended otherwise. The child has none of its parent's files and can open none, so that HDF5
// finds neither plug-ins nor what a link leads to; it prints nothing and dies with its parent.
std::vector<std::byte> in_limited_child(const std::function<std::vector<std::byte>()>& work,
                                        const ChildLimits& limits = {});

}  // namespace shardproof
