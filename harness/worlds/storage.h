// Whole tensors between storage types and double, and between strided views and dense memory,
// without a decision per element.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "harness/run/tensor.h"

namespace shardproof {

// `values` are representable in `type`.
void store_all(DType type, std::span<const double> values, std::byte* to);
void load_all(DType type, const std::byte* from, std::span<double> values);

// The elements of a view in row-major order to dense memory of its dtype, and back.
void pack(const View& from, std::byte* to);
void unpack(const std::byte* from, const View& to);

// The elements in row-major order: where they are if the view is dense, else copied to `room`.
const std::byte* packed_bytes(const View& view, std::vector<std::byte>& room);

}  // namespace shardproof
