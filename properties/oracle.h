// Oracle: one run against the reference, for every property that compares with it.
#pragma once

#include "harness/check/property.h"

namespace shardproof {

// How much the reference computes at first: T1 too where it costs little or where roundings are
// far from independent.
Effort oracle_effort(const Problem& problem);

// The verdict on the first output or gradient of a completed run that is wrong.
Verdict verdict_against_reference(const Run& run);

// The same, naming the run's case in the message.
Verdict verdict_of_variant_against_reference(const Run& variant);

}  // namespace shardproof
