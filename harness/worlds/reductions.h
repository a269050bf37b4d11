// Reductions: one step of an element-wise sum or maximum over a group, as every world makes it, so
// that worlds which combine in the same order agree bit for bit.
#pragma once

#include <cstddef>

#include "harness/model/dtype.h"
#include "harness/model/shape.h"

namespace shardproof {

// target += source, each sum rounded to `type`.
void add_rounded(DType type, std::byte* target, const std::byte* source, Index elements);

// target = the larger; NaN where either is.
void keep_larger(DType type, std::byte* target, const std::byte* source, Index elements);

}  // namespace shardproof
