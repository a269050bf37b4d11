#include "harness/run/world.h"

namespace shardproof {

std::string_view name(Ending ending) {
  switch (ending) {
    case Ending::kCompleted:
      return "completed";
    case Ending::kDeadlocked:
      return "deadlocked";
    case Ending::kMismatched:
      return "mismatched";
    case Ending::kThrew:
      return "threw";
    case Ending::kCrashed:
      return "crashed";
    case Ending::kTimedOut:
      return "timed_out";
  }
  return "";
}

std::string_view name(Breach breach) {
  switch (breach) {
    case Breach::kGuardBand:
      return "guard_band";
    case Breach::kUnwritten:
      return "unwritten";
    case Breach::kInputChanged:
      return "input_changed";
    case Breach::kReplicasDiffer:
      return "replicas_differ";
    case Breach::kLeakedRequest:
      return "leaked_request";
    case Breach::kInFlightChanged:
      return "in_flight_changed";
  }
  return "";
}

const Gathered* Outcome::find(std::string_view tensor) const {
  for (const Gathered& gathered : tensors) {
    if (gathered.spec.name == tensor) return &gathered;
  }
  return nullptr;
}

}  // namespace shardproof
