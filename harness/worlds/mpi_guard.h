// The guard of a world of MPI processes: a process between the one that wants the world and mpirun.
// When either is gone it ends all that mpirun started and deletes the run folder.
#pragma once

#include <filesystem>

#include "harness/worlds/mpi_launch.h"

namespace shardproof {

// Where MPI keeps its files: in memory where possible, since it maps them. Locked for as long as
// anyone who holds a copy lives, so that folders whose guard was killed can be told and removed:
// that is done when the next one is made.
class RunFolder {
 public:
  RunFolder();
  ~RunFolder();  // leaves the folder
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  int lock() const { return lock_; }
  void remove() const;

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

// The life of the guard; never returns. It starts mpirun, whose output goes to `printed`, writes
// how mpirun ended to `ended`, and ends everything when `lifeline` closes.
[[noreturn]] void run_guard(const MpiCommand& command, const RunFolder& folder, int lifeline,
                            int ended, int printed);

}  // namespace shardproof
