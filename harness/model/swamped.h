// Swamped: the values of a problem under Edit::kSwamped. Everything is a small integer, except that
// two terms of every long sum are large and cancel: whoever adds in a type too narrow to hold a
// large and a small term together loses the small ones, and whoever does not is exact.
#pragma once

#include "harness/model/operator.h"

namespace shardproof {

// What the two large terms are multiplied by: beyond the significand of every narrower type, and so
// small that sums of a few hundred terms fit into that of the accumulator.
double swamping_factor(DType type);

// Where the element at `position` is drawn: at itself, or, so that the terms that the large ones
// multiply are alike, at the twin of its hidden unit.
Index drawn_at(const TensorSpec& spec, Index position);

// The element at `position`; `draw` is a hash of what drawn_at says.
double swamped(const TensorSpec& spec, Index position, std::uint64_t draw);

// Whether an operator with such a tensor has sums to swamp: values, or a last weight.
bool can_be_swamped(const TensorSpec& spec);

}  // namespace shardproof
