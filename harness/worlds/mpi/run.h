// MpiRun: what the parts of one rank share during a run: how it ends, what was found, and the
// choices that the schedule leaves to the world.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/world.h"
#include "harness/worlds/mpi/call.h"
#include "harness/worlds/mpi/status.h"
#include "harness/worlds/placed_rank.h"
#include "harness/worlds/scheduler.h"

namespace shardproof {

// Ends the subject's part of the run.
struct Mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Overdue : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class MpiRun {
 public:
  MpiRun(RankStatus& status, PlacedRank& rank) : status_(status), rank_(rank) {}

  void begin(std::int64_t number, std::uint64_t schedule);

  std::int64_t number() const { return number_; }
  Schedule& schedule() { return schedule_; }
  PlacedRank& rank() { return rank_; }
  RankStatus& status() { return status_; }

  // Seconds since the run began on this rank: what the log calls its clock.
  double elapsed() const;

  // Seconds of them in which the rank did nothing but wait for communication.
  double exposed() const { return exposed_; }
  void waited_since(double began) { exposed_ += elapsed() - began; }

  // Notes a communication that begins now; returns its number in the log.
  std::size_t note(std::string_view operation, const std::string& axis, int peer, int tag,
                   Index bytes);
  void complete(std::size_t event);

  // Waits for a request. Looks for it all the time, but lets others have the processor.
  void wait(MPI_Request& request, MPI_Status& status);

  // The first ending counts.
  void end(Ending how, std::string why);
  [[noreturn]] void mismatch(std::string why);

  Ending ending = Ending::kCompleted;
  std::string message;
  std::vector<Finding> findings;

 private:
  RankStatus& status_;
  PlacedRank& rank_;
  std::int64_t number_ = 0;
  Schedule schedule_;
  double began_ = 0;
  double exposed_ = 0;
};

}  // namespace shardproof
