// The collective operations on `parts` contributions, and their adjoints. Moving data is exact;
// sums are bounded in precision.reduction, and exact where every partial sum is representable.
#pragma once

#include "harness/model/operator.h"

namespace shardproof {

const Operator& collective_operator();

}  // namespace shardproof
