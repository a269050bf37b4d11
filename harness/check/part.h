// Part: one of several disjoint shares of a campaign's cases, for jobs and hosts that divide one
// among them. All parts together have every number exactly once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardproof {

struct Part {
  std::uint64_t index = 0;  // below count
  std::uint64_t count = 1;

  bool operator==(const Part&) const = default;

  // "2/4": the second of four. Throws Error.
  static Part parse(std::string_view text);
  std::string text() const;

  // The number of the part's case `position`. Numbers grow with positions.
  std::uint64_t nth(std::uint64_t position) const;

  // How many of the numbers below `total` it has.
  std::uint64_t share(std::uint64_t total) const;
};

}  // namespace shardproof
