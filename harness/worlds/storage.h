// Whole tensors between storage types and double, without a decision per element.
#pragma once

#include <cstddef>
#include <span>

#include "harness/model/dtype.h"

namespace shardproof {

// `values` are representable in `type`.
void store_all(DType type, std::span<const double> values, std::byte* to);
void load_all(DType type, const std::byte* from, std::span<double> values);

}  // namespace shardproof
