// Whereabouts: which rank of a simulated run has the processor and what each communicated last, in
// memory that another process may share, to be read when this one is dead. Diagnostic only: never
// read by anything that computes a result.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace shardproof {

struct Whereabouts {
  struct Event {
    std::array<char, 20> operation{};  // cut off, ends with 0
    std::array<char, 8> axis{};
    bool backward = false;
  };

  int rank = -1;                  // -1: none
  std::array<Event, 256> last{};  // of more ranks no more is known

  // "rank 2, after all_reduce (cp axis, forward)"; empty when no rank had the processor. Whatever
  // the memory holds.
  std::string text() const;
};

// Where this thread notes them from now on; null: nowhere, as at first. `place` must live on.
void keep_whereabouts(Whereabouts* place);

void note_rank(int rank);
void note_event(int rank, std::string_view operation, std::string_view axis, bool backward);

}  // namespace shardproof
