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

  // A judged case; `by`: how many were generated up to it.
  void add(const Case& value, std::uint64_t by);

  // For each pair 1 + the smallest `by` of its cases; 0: none yet.
  const std::vector<std::uint64_t>& first() const { return first_; }

  // Adds what another one has seen. Throws Error when it is of another domain.
  void join(const std::vector<std::uint64_t>& first);

  struct Count {
    std::string_view first;  // dimensions
    std::string_view second;
    Index covered = 0;
    Index possible = 0;
  };

  // One entry a pair of dimensions that has any possible value.
  std::vector<Count> counts() const;
  Count total() const;

  // How many cases were generated until a possible pair was last seen for the first time.
  std::uint64_t last_new() const;

 private:
  std::size_t cell(int first, int second, int first_value, int second_value) const;

  Domain domain_;
  std::array<int, kPairDimensions> sizes_{};
  std::array<std::array<std::size_t, kPairDimensions>, kPairDimensions> offsets_{};
  std::vector<bool> possible_;
  std::vector<std::uint64_t> first_;
};

}  // namespace shardproof
