// What the MPI world and its ranks tell each other: orders go to the ranks, records and reports
// come back. All are plain values with a form of bytes; unpacking damaged bytes throws Error.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/run/world.h"

namespace shardproof {

// The first message on a connection: from a rank itself, or from the watcher beside it.
struct Greeting {
  std::string token;  // proves that the world itself started the sender
  bool is_watcher = false;
  int rank = 0;
  int ranks = 0;

  std::string packed() const;
  static Greeting unpacked(std::string_view bytes);
};

// The world whose ranks have their devices move data.
inline constexpr std::string_view kNcclWorld = "nccl";

// Run this case on the ranks that its mesh has.
struct Order {
  std::int64_t run = 0;
  std::string text;  // of the case
  bool keep_trace = false;
  double limit_seconds = 0;  // that a rank may wait for its device

  std::string packed() const;
  static Order unpacked(std::string_view bytes);
};

// How many messages a rank sent to (and waited for) and expected from another along one axis.
struct Flow {
  std::string axis;
  int peer = 0;  // global
  Index sent = 0;
  Index expected = 0;
};

// What a rank knows after its part of a run.
struct RankRecord {
  std::int64_t run = 0;
  Ending ending = Ending::kCompleted;
  std::string message;
  std::string trouble;  // set when the environment, not the subject, is wrong
  std::vector<Finding> findings;
  RankFacts facts;
  Trace events;
  std::vector<Flow> flows;
  std::vector<std::string> parts;  // the bytes of its outputs and gradients, in order

  std::string packed() const;
  static RankRecord unpacked(std::string_view bytes);
};

// What a rank is at, written by itself where its watcher can read it even when it is dead.
struct Activity {
  enum class State : std::int32_t { kIdle, kComputing, kWaiting, kFinished };

  State state = State::kIdle;
  Phase phase = Phase::kForward;
  std::array<char, 24> operation{};  // the last communication; empty: none yet
  std::array<char, 16> axis{};
  std::int32_t peer = -1;  // global; -1 for collectives
  std::int32_t tag = 0;
  std::int64_t events = 0;  // communications so far, and waits

  // "send to rank 2 (tag 0, cp axis, forward)"; "no communication" before the first.
  std::string last_event() const;
};

// What a watcher says of its rank: when asked and, once, when it has ended.
struct Report {
  bool has_ended = false;
  int status = 0;  // as of waitpid
  Activity activity;
  double processor_seconds = 0;  // that the rank has used so far
  bool is_stopped = false;       // by a signal
  bool is_asleep = false;
  std::string words;  // the end of what it printed

  std::string packed() const;
  static Report unpacked(std::string_view bytes);
};

}  // namespace shardproof
