// Extents: how long the dimensions of a drawn problem are, beside each other.
#pragma once

#include <cstdint>
#include <functional>

#include "harness/check/domain.h"

namespace shardproof {

// Equal extents hide transposed indices, so the later of two equal ones moves on.
void make_distinct(Case& value, const Domain& domain);

// Halves the longest extent until the problem has at most `work` multiply-adds, or is tiny.
void make_little(Case& value, const Domain& domain, double work);

// Makes one extent or two far longer than the others, at the edge of a power of two: there kernels
// change tiles, paths and types. `random` draws bits.
void make_long(Case& value, const Domain& domain, const std::function<std::uint64_t()>& random);

}  // namespace shardproof
