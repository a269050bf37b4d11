#include "harness/worlds/mpi/run.h"

#include <sched.h>

#include <utility>

namespace shardproof {
namespace {

// A message that is longer than its receive has come, too: what is wrong with it stands in it.
bool is_done(MPI_Request& request, MPI_Status& status) {
  int done = 0;
  const int code = MPI_Test(&request, &done, &status);
  int kind = MPI_SUCCESS;
  MPI_Error_class(code, &kind);
  if (kind == MPI_ERR_TRUNCATE) return true;
  check_mpi(code);
  return done != 0;
}

}  // namespace

void MpiRun::begin(std::int64_t number, std::uint64_t schedule) {
  number_ = number;
  schedule_ = Schedule(schedule);
  began_ = MPI_Wtime();
  exposed_ = 0;
  ending = Ending::kCompleted;
  message.clear();
  findings.clear();
  status_.begin_run();
}

double MpiRun::elapsed() const { return MPI_Wtime() - began_; }

std::size_t MpiRun::note(std::string_view operation, const std::string& axis, int peer, int tag,
                         Index bytes) {
  if (schedule_.pauses_here()) sched_yield();
  status_.communicate(operation, axis, rank_.log.phase, peer, tag);
  rank_.log.advance_to(elapsed());
  return rank_.log.record(operation, axis, peer, bytes);
}

void MpiRun::complete(std::size_t event) {
  rank_.log.advance_to(elapsed());
  rank_.log.complete(event, rank_.log.now());
}

void MpiRun::wait(MPI_Request& request, MPI_Status& status) {
  if (is_done(request, status)) return;
  const double began = elapsed();
  status_.become(Activity::State::kWaiting);
  while (!is_done(request, status)) sched_yield();
  status_.become(Activity::State::kComputing);
  waited_since(began);
}

void MpiRun::end(Ending how, std::string why) {
  if (ending != Ending::kCompleted) return;
  ending = how;
  message = std::move(why);
}

void MpiRun::mismatch(std::string why) {
  end(Ending::kMismatched, why);
  throw Mismatch(why);
}

}  // namespace shardproof
