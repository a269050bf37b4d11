#include "harness/model/shape.h"

namespace shardproof {

Shape::Shape(std::initializer_list<Index> extents) {
  for (Index extent : extents) append(extent);
}

std::array<Index, Shape::kMaximumRank> Shape::coordinates(Index flat) const {
  std::array<Index, kMaximumRank> result{};
  for (int d = rank_ - 1; d >= 0; --d) {
    result[static_cast<std::size_t>(d)] = flat % (*this)[d];
    flat /= (*this)[d];
  }
  return result;
}

std::string Shape::text() const {
  std::string result = "[";
  for (int d = 0; d < rank_; ++d) result += (d ? ", " : "") + std::to_string((*this)[d]);
  return result + "]";
}

bool Shape::operator==(const Shape& other) const {
  if (rank_ != other.rank_) return false;
  for (int d = 0; d < rank_; ++d) {
    if ((*this)[d] != other[d]) return false;
  }
  return true;
}

}  // namespace shardproof
