// Doubled: inputs times two make results times two, bit for bit, because a power of two changes no
// significand. Only results near the smallest magnitudes, where products may have underflowed, and
// types with so few exponents that results may overflow are left out.
#pragma once

#include <functional>
#include <string>

#include "harness/check/property.h"

namespace shardproof {

// Why doubling may not be exact in this problem, or an empty string.
std::string why_not_doubled(const Problem& problem);

// The variant's results against the base run's times 2^power(spec).
Verdict verdict_of_doubled(const Evidence& evidence,
                           const std::function<int(const TensorSpec&)>& power);

}  // namespace shardproof
