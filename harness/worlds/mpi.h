// The MPI world: each rank is a process that mpirun starts. The world itself is none of them and
// knows no MPI: it sends each rank the case as its one line of text and gets records back. One
// started world serves many runs; after a run that did not complete it starts another.
#pragma once

#include <filesystem>
#include <memory>

#include "harness/run/world.h"
#include "harness/worlds/mpi_launch.h"

namespace shardproof {

struct MpiOptions {
  MpiCommand command;      // its number of ranks: the fewest that are started
  double run_seconds = 0;  // that a run may take whatever its limit is

  // Why this host cannot have so many ranks, or an empty string. Null: nothing but `ranks` counts.
  std::string (*unsupported)(int ranks) = nullptr;
};

// As the environment says: SHARDPROOF_MPIRUN, words, is what starts ranks on other hosts, too, and
// SHARDPROOF_ADDRESS (by default the host's name) is where they find this one.
MpiOptions mpi_options();

std::unique_ptr<World> make_mpi(MpiOptions options);

// Why ranks cannot be started here, or an empty string.
std::string why_no_mpi();

}  // namespace shardproof
