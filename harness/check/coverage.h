// Coverage: which pairs of (operator, mask, dtype, layout, mesh shape, data) a campaign has judged,
// out of those that its domain can draw. Most faults need two particular values to meet.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/check/domain.h"

namespace shardproof {

class Coverage {
 public:
  Coverage(const Domain& domain, const Tables& tables);

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
  static constexpr int kDimensions = 6;
  using Values = std::array<int, kDimensions>;  // -1: not used by the case

  Values values_of(const Case& value) const;
  std::size_t cell(int first, int second, const Values& values) const;
  void allow(const Domain& domain, const Subject& subject);

  const Tables& tables_;
  Vocabulary vocabulary_;
  std::array<int, kDimensions> sizes_{};
  std::array<std::array<std::size_t, kDimensions>, kDimensions> offsets_{};
  std::vector<bool> possible_;
  std::vector<bool> covered_;
  std::uint64_t cases_ = 0;
  std::uint64_t last_new_ = 0;
};

}  // namespace shardproof
