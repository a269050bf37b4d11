// MpiLaunch: mpirun, and a guard process above it that outlives whoever started it for as long as
// it takes to end every process and to delete the folder in which MPI keeps its files. So nothing
// is left behind, however the starter, mpirun or a rank comes to its end.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shardproof {

struct MpiCommand {
  std::vector<std::string> launcher;  // "mpirun", or a scheduler's: is followed by -n RANKS
  bool on_this_host = true;           // all ranks
  std::string address;                // at which other hosts reach this one
  int ranks = 1;
  std::vector<std::string> program;  // what each rank executes
};

class MpiLaunch {
 public:
  // Throws Error when there is no room for the folder or no process to be had.
  explicit MpiLaunch(const MpiCommand& command);
  ~MpiLaunch();  // ends every process and waits until nothing is left
  MpiLaunch(const MpiLaunch&) = delete;
  MpiLaunch& operator=(const MpiLaunch&) = delete;

  // How mpirun ended, as of waitpid; nothing while it runs. Readable: something may have changed.
  std::optional<int> status();
  int descriptor() const { return ended_; }

  // The end of what mpirun printed.
  const std::string& words();

 private:
  pid_t guard_ = -1;
  int lifeline_ = -1;  // the guard ends everything when it closes
  int ended_ = -1;
  int printed_ = -1;
  std::optional<int> status_;
  std::string words_;
};

// Where a program named `name` lies on the PATH; empty when it does not.
std::filesystem::path on_path(const std::string& name);

}  // namespace shardproof
