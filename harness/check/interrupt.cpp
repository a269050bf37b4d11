#include "harness/check/interrupt.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "harness/model/require.h"

namespace shardproof {
namespace {

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t set = ending_signals();
  sigprocmask(SIG_BLOCK, &set, &before_);
  descriptor_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (descriptor_ < 0) throw Error("cannot listen for signals");
}

Interrupt::~Interrupt() {
  close(descriptor_);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

bool Interrupt::came() {
  signalfd_siginfo info;
  while (read(descriptor_, &info, sizeof info) == sizeof info) came_ = true;
  return came_;
}

}  // namespace shardproof
