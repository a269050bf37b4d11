// Trades: moves of two fields that no sequence of moves of one can make while the failure persists.
// One is made, or none, which the answer tells.
#pragma once

#include "harness/check/smallest.h"

namespace shardproof {

// Two sizes: the same difference, multiple, sum or product, or the later of two that would do.
bool trade_sizes(Smallest& smallest);

// Something else in place of a choice: another one, an extent of two, a layout in place of ranks
// or ranks in place of a layout, or another value that makes do with smaller extents.
bool trade_choices(Smallest& smallest);

}  // namespace shardproof
