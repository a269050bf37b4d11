// The rank program: what mpirun starts. It waits for cases from the MPI world, runs its part of
// each, and sends back what it knows.
#pragma once

#include <string>
#include <vector>

#include "harness/model/case.h"
#include "harness/run/world.h"

namespace shardproof {

struct RankTables {
  Vocabulary vocabulary;
  std::vector<const Subject*> subjects;
  std::vector<DeviceEntry> devices;
};

// Never returns. `address` and `token` are what the world put on the command line.
[[noreturn]] void run_rank_program(const RankTables& tables, const std::string& address,
                                   const std::string& token);

}  // namespace shardproof
