// Messages: point-to-point transfers among the ranks of a simulated run. They match by (axis,
// source, tag) in the order of posting. Data is delivered when the receiver's wait returns, the
// latest moment allowed; a send is read at its post or as late as the program permits, as the
// schedule says. Whatever touches a buffer in flight is found.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "harness/worlds/sim_group.h"
#include "harness/worlds/sim_rank.h"

namespace shardproof {

enum class Direction { kSend, kReceive };

// One send or receive that was posted.
struct Posting {
  Direction direction = Direction::kSend;
  int id = 0;
  int rank = 0;  // global, who posted
  int peer = 0;  // global
  int tag = 0;
  const SimGroup* group = nullptr;
  Phase phase = Phase::kForward;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  Index elements = 0;
  DType dtype = DType::kF32;
  bool in_tensor = false;  // whether the rank's memory owned the data when it was posted
  bool matched = false;
  bool faulty = false;    // a finding was made: the consequences are not reported again
  std::size_t event = 0;  // in the rank's log

  // A receive's match.
  Posting* source = nullptr;

  // Sends.
  bool buffered = false;  // may complete before a receive is posted
  bool late = false;      // is read as late as possible
  bool waited = false;
  bool delivered = false;
  std::vector<std::byte> payload;  // what is delivered
  double arrival = 0;              // virtual
};

// For example "receive from rank 3 (tag 1, cp axis, forward)".
std::string describe(const Posting& posting);

class Messages {
 public:
  explicit Messages(SimRun& run) : run_(run) {}

  // Forgets the case before.
  void begin(int ranks);

  Request start(SimRank& rank, const SimGroup& group, const View& data, int peer, int tag,
                Direction direction);
  void launch(SimRank& rank);
  void wait(SimRank& rank, Request& request);

  // Notes a finding when `rank` uses `data` in a collective while it is in flight.
  void check_idle(SimRank& rank, const View& data, std::string_view operation, bool writes);

  // Notes what was never waited for or never received, after a run that completed.
  void find_leaks();

 private:
  // What waits for a match at one receiving rank.
  struct Mailbox {
    std::vector<Posting*> sends;
    std::vector<Posting*> receives;
  };

  Posting& acquire();
  void release(Posting& posting) { unused_.push_back(&posting); }
  void match(Posting& posting);
  void join(Posting& send, Posting& receive);
  void check_overlap(SimRank& rank, Posting& posting);
  void finish_send(SimRank& rank, Posting& send);
  void finish_receive(SimRank& rank, Posting& receive);
  void deliver(const SimRank& rank, Posting& send, Posting& receive);
  void check_unchanged(Posting& send, std::string_view until);
  void report(Posting& posting, std::string detail);

  SimRun& run_;
  std::deque<Posting> postings_;
  std::vector<Posting*> unused_;
  std::size_t ranks_ = 0;           // of the case that runs
  std::vector<Mailbox> mailboxes_;  // at least as many
};

}  // namespace shardproof
