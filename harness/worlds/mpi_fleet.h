// MpiFleet: one started world of MPI processes, kept alive from run to run. After a run that did
// not complete, what its ranks are at is unknown: the fleet is to be dropped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/worlds/mpi_launch.h"
#include "harness/worlds/mpi_watch.h"
#include "harness/worlds/mpi_wire.h"

namespace shardproof {

// How a run ended on all ranks together.
struct Conclusion {
  Ending ending = Ending::kCompleted;
  std::string message;
  bool is_outside = false;          // not the subject's doing: start another world, run again
  std::vector<RankRecord> records;  // of all ranks when completed
};

class MpiFleet {
 public:
  // Starts the ranks and waits until all have reported. Throws Error with what mpirun says.
  explicit MpiFleet(MpiCommand command);

  int ranks() const { return static_cast<int>(members_.size()); }

  // Runs the case of `text` on the first `ranks`.
  Conclusion run(const std::string& text, bool keep_trace, int ranks, double limit_seconds);

 private:
  struct Member {
    Wire rank;
    Wire watcher;
    std::optional<RankRecord> record;
    std::optional<Report> end;
    bool rank_lost = false;  // its connection closed
    bool watcher_lost = false;
    bool is_asked = false;  // the watcher owes a report
  };

  void gather(Listener& listener, const std::string& token);
  void greet(Wire wire, const std::string& token);
  void listen(std::size_t ranks, MpiWatch& watch, double start);
  void hear_rank(Member& member, int rank, MpiWatch& watch);
  void hear_watcher(Member& member, int rank, MpiWatch& watch, double now);
  void ask(std::size_t ranks);
  bool is_complete(std::size_t ranks) const;
  bool has_failed(std::size_t ranks) const;
  bool is_broken();
  Conclusion conclude(std::size_t ranks);
  Conclusion conclude_outside();

  std::vector<Member> members_;
  std::optional<MpiLaunch> launch_;
  std::int64_t run_ = 0;
};

}  // namespace shardproof
