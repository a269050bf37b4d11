// MpiWatch: what the reports of the watchers say about the ranks of one run that still goes on. It
// counts what the ranks could do, not what a clock shows: on a busy machine a wait is no deadlock
// and a slow rank does not hang.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/worlds/mpi_record.h"

namespace shardproof {

struct Stuck {
  Ending ending = Ending::kTimedOut;
  std::string message;  // names the ranks and the last communication of each
};

class MpiWatch {
 public:
  MpiWatch(int ranks, double limit_seconds);

  void add(int rank, const Report& report, double now);  // seconds since the run began
  void has_finished(int rank) { views_[static_cast<std::size_t>(rank)].finished = true; }

  // What keeps the run from ending, if anything does.
  std::optional<Stuck> stuck(double now) const;

 private:
  struct View {
    bool finished = false;
    bool seen = false;
    Report latest;
    double reported_at = 0;
    double first_processor = 0;    // seconds at the first report
    double asleep = 0;             // seconds seen asleep without a wait
    double stopped_since = -1;     // the first of the reports in a row that say so
    double waiting_since = -1;     // of those that show the same wait
    double waiting_processor = 0;  // at that report
  };

  bool waits_in_vain(const View& view, double now) const;
  std::string sentences(bool only_unfinished) const;

  double limit_seconds_;
  std::vector<View> views_;
};

}  // namespace shardproof
