// What the call of a plugin costs, beside shardproof's own code.
#pragma once

#include "harness/check/judge.h"

namespace shardproof {

void print_plugins(double seconds, const Tables& tables);

}  // namespace shardproof
