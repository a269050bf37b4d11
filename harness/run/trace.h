// Trace: what the ranks of one run communicated, in virtual time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/model/contract.h"

namespace shardproof {

struct Event {
  int rank = 0;
  Phase phase = Phase::kForward;
  std::string_view operation;  // "send", "receive", "all_reduce", ...; static storage
  std::string axis;
  int peer = -1;     // global rank of the other side; -1 for collectives
  Index bytes = 0;   // payload this rank hands in (sent, contributed) or, for a receive, gets
  double start = 0;  // virtual seconds: posted
  double end = 0;    // virtual seconds: completed
};

using Trace = std::vector<Event>;

}  // namespace shardproof
