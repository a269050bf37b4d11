// Index and Shape: the extents of a dense tensor, outermost dimension first, at most six.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "harness/model/require.h"

namespace shardproof {

using Index = std::int64_t;

class Shape {
 public:
  static constexpr int kMaximumRank = 6;

  Shape() = default;
  Shape(std::initializer_list<Index> extents);

  int rank() const { return rank_; }
  Index operator[](int dimension) const { return extents_[static_cast<std::size_t>(dimension)]; }
  Index& operator[](int dimension) { return extents_[static_cast<std::size_t>(dimension)]; }
  void append(Index extent) {
    require(rank_ < kMaximumRank, "a shape has at most six dimensions");
    extents_[static_cast<std::size_t>(rank_++)] = extent;
  }

  // The number of elements; 1 for rank 0.
  Index elements() const {
    Index count = 1;
    for (int d = 0; d < rank_; ++d) count *= (*this)[d];
    return count;
  }

  // The coordinates of the element at row-major position `flat`.
  std::array<Index, kMaximumRank> coordinates(Index flat) const;

  // For example "[2, 33, 4, 16]".
  std::string text() const;

  bool operator==(const Shape& other) const;

 private:
  std::array<Index, kMaximumRank> extents_{};
  int rank_ = 0;
};

}  // namespace shardproof
