// For properties that compare two runs of one problem within what the contracts allow.
#pragma once

#include "harness/check/property.h"

namespace shardproof {

// Falsified by the first tensor in which the runs differ by more than both bounds together.
Verdict verdict_of_same_values(const Run& base, const Run& other);

}  // namespace shardproof
