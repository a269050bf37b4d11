// Twin: a larger problem of the same kind on plain data, for claims about errors in the mean.
#pragma once

#include "harness/check/property.h"

namespace shardproof {

// Least extents of a twin: of tokens, features and units, and of the head dimensions.
struct TwinExtents {
  Index long_side = 0;
  Index head_side = 0;
};

// `value` with one batch entry, extents raised to the least or cut to a little more than it, normal
// data of another seed for every `number`, and a placement that fits.
Case twin_of(const Case& value, const Subject& subject, const TwinExtents& least,
             std::uint64_t number);

}  // namespace shardproof
