#include "harness/worlds/arguments.h"

#include <fmt/format.h>

#include <stdexcept>

namespace shardproof {

void check_view(std::string_view operation, const View& data) {
  if (!data.is_dense()) {
    throw std::invalid_argument(
        fmt::format("{} of a view of shape {} that is not dense", operation, data.shape.text()));
  }
  if (data.data == nullptr && data.elements() > 0) {
    throw std::invalid_argument(
        fmt::format("{} of a view of shape {} without memory", operation, data.shape.text()));
  }
}

void check_peer(std::string_view operation, int peer, int size, std::string_view axis) {
  if (peer >= 0 && peer < size) return;
  throw std::invalid_argument(
      fmt::format("{} with rank {} of a group of {} ({} axis)", operation, peer, size, axis));
}

void check_parts(std::string_view operation, std::span<const View> parts, int size,
                 std::string_view axis) {
  if (static_cast<int>(parts.size()) != size) {
    throw std::invalid_argument(fmt::format("{} with {} parts in a group of {} ({} axis)",
                                            operation, parts.size(), size, axis));
  }
  for (const View& part : parts) check_view(operation, part);
}

}  // namespace shardproof
