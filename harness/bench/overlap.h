// How much of the ring's transfers hides behind the work on blocks, over processes and, in virtual
// time, as the simulated world predicts it.
#pragma once

#include "harness/check/judge.h"

namespace shardproof {

// Prints a table: ring sizes 2 and 4, several block sizes. Says why where processes cannot run.
void print_overlap(const Tables& tables);

}  // namespace shardproof
