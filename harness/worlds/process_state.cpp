#include "harness/worlds/process_state.h"

#include <cfenv>
#include <cstring>
#include <limits>

namespace shardproof {
namespace {

// Numbers too small for the normal format count as 0 in a mode that some libraries switch on.
bool flushes_to_zero() {
  const volatile double tiny = std::numeric_limits<double>::denorm_min();
  return tiny + tiny == 0;
}

}  // namespace

ProcessState::ProcessState() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &actions_[i]);
  }
}

std::string ProcessState::restore(bool signals) const {
  std::string changed;
  if (std::fegetround() != FE_TONEAREST) changed = "changed the rounding mode";
  if (flushes_to_zero()) changed = "switched flushing to zero on";
  if (!changed.empty()) std::fesetenv(FE_DFL_ENV);
  for (std::size_t i = 0; signals && i < kSignals.size(); ++i) {
    struct sigaction now {};
    sigaction(kSignals[i], nullptr, &now);
    if (now.sa_handler == actions_[i].sa_handler) continue;
    sigaction(kSignals[i], &actions_[i], nullptr);
    changed = std::string("changed what is done on ") + strsignal(kSignals[i]);
  }
  return changed;
}

}  // namespace shardproof
