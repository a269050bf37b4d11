// Interrupt: turns SIGINT and SIGTERM into something to poll while it lives, so that a campaign
// ends with its summary. Workers inherit the blocked signals: a Ctrl-C reaches only the driver.
#pragma once

#include <csignal>

namespace shardproof {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  int descriptor() const { return descriptor_; }

  // Whether a signal has come since construction.
  bool came();

 private:
  sigset_t before_;
  int descriptor_ = -1;
  bool came_ = false;
};

}  // namespace shardproof
