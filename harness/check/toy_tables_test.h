// Tables for tests of the campaign: an operator with real fields, subjects that misbehave in known
// ways, a world that calls none but acts as their names say, and a property that believes it.
#pragma once

#include "harness/check/judge.h"

namespace shardproof {

// Subjects: right; wrong (falsified when q >= 7 and a mask hides something); mean (falsified in two
// ways); segfault, exits, aborts, hangs, hungry, noisy (each when q >= 5).
Tables toy_tables();

}  // namespace shardproof
