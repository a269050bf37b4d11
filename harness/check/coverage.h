// Coverage: which pairs of values (pairs.h) a campaign has judged, out of those that its domain can
// draw.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/check/pairs.h"

namespace shardproof {

class Coverage {
 public:
  explicit Coverage(const Domain& domain);

  void add(const Case& value);

  struct Count {
    std::string_view first;  // dimensions
    std::string_view second;
    Index covered = 0;
    Index possible = 0;
  };

  // One entry a pair of dimensions that has any possible value.
  std::vector<Count> counts() const;
  Count total() const;

  // How many cases were added when a possible pair was last seen for the first time.
  std::uint64_t last_new() const { return last_new_; }

 private:
  std::size_t cell(int first, int second, int first_value, int second_value) const;

  Domain domain_;
  std::array<int, kPairDimensions> sizes_{};
  std::array<std::array<std::size_t, kPairDimensions>, kPairDimensions> offsets_{};
  std::vector<bool> possible_;
  std::vector<bool> covered_;
  std::uint64_t cases_ = 0;
  std::uint64_t last_new_ = 0;
};

}  // namespace shardproof
