// Arrangement: which elements of which allocation each of a rank's tensors is made of
// (Placement::views): a pure function of their specs and shapes. No two tensors share an element.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "harness/model/case.h"
#include "harness/model/operator.h"

namespace shardproof {

// Where one tensor lies: its first element inside an allocation, and strides, both in elements.
struct Place {
  std::size_t allocation = 0;
  Index first = 0;
  std::array<Index, Shape::kMaximumRank> strides{};
};

struct Arrangement {
  std::vector<Place> places;        // one a tensor
  std::vector<std::size_t> owners;  // of each allocation: the first tensor in it
  std::vector<Index> elements;      // of each allocation, of its owner's dtype
};

// `shapes[i]` is a rank's part of `specs[i]`. Any views but kDense and kFar.
Arrangement arranged(Views views, std::span<const TensorSpec> specs, std::span<const Shape> shapes);

}  // namespace shardproof
