// The table of operators.
#pragma once

#include <vector>

#include "harness/model/operator.h"

namespace shardproof {

std::vector<const Operator*> all_operators();

}  // namespace shardproof
