// Same bits: the verdict on runs that must agree with the base run bit for bit.
#pragma once

#include "harness/check/property.h"

namespace shardproof {

// Every output and gradient of every variant against the base run.
Verdict verdict_of_same_bits(const Evidence& evidence);

}  // namespace shardproof
