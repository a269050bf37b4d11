// The watcher: the process that mpirun starts for a rank. The rank is its child. It needs no help
// of the rank to say what the rank is at, what it printed last, and how it ended, and takes it down
// when the driver is gone.
#pragma once

#include <string>

#include "harness/worlds/mpi/status.h"

namespace shardproof {

// Forks. Returns only in the rank: a descriptor to which it writes a byte once `status` holds its
// number. The watcher connects to `address` and lives until the rank has ended.
int fork_watched_rank(const std::string& address, const std::string& token, RankStatus& status);

}  // namespace shardproof
