// For tests of the MPI world: a small operator that has a text, and subjects by name that the ranks
// know, too: the test program is its own rank program.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "harness/worlds/mpi.h"
#include "harness/worlds/mpi/program.h"
#include "harness/worlds/sim_fixture.h"

namespace shardproof {

RankTables mpi_test_tables();

const Subject& mpi_test_subject(std::string_view name);

// Of that subject, on a mesh along cp.
Case mpi_test_case(std::string_view subject, int ranks, Index tokens = 7, Index features = 3);

// Ranks are started by this program; `run_seconds` is the least time limit of a run.
std::unique_ptr<World> make_test_mpi(int ranks, double run_seconds = 20);

Outcome run_test(World& world, const Case& value, const RunOptions& options = {});

// Processes below this one; folders of MPI worlds, and those of them that are not in `known`.
std::vector<int> descendants();
std::set<std::string> run_folders();
std::set<std::string> new_folders(const std::set<std::string>& known);

}  // namespace shardproof
