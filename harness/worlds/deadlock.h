// Deadlock: who waits for whom, in words, when no rank of a simulated run can go on.
#pragma once

#include <string>

#include "harness/worlds/sim_rank.h"

namespace shardproof {

// Starts at the lowest rank that waits, follows the ranks waited for, and closes with how many
// others wait. At most eight ranks are described.
std::string wait_for_graph(const SimRun& run, int ranks);

}  // namespace shardproof
