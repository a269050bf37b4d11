// ProcessState: what code under test might change for every later case in its process and for the
// harness itself: how floating-point numbers are rounded, and what signals do.
#pragma once

#include <array>
#include <csignal>
#include <string>

namespace shardproof {

class ProcessState {
 public:
  ProcessState();  // as it is now; floating point as a program finds it at its start

  // Makes it so again. What was not, or an empty string: "changed the rounding mode". Looking at
  // signals costs several system calls.
  std::string restore(bool signals) const;

 private:
  static constexpr std::array<int, 8> kSignals{SIGSEGV, SIGABRT, SIGFPE,  SIGBUS,
                                               SIGILL,  SIGTERM, SIGALRM, SIGPIPE};

  std::array<struct sigaction, kSignals.size()> actions_{};
};

}  // namespace shardproof
