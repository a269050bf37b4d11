#include "harness/check/property.h"

#include <array>

namespace shardproof {

std::string_view name(VerdictKind kind) {
  static constexpr std::array<std::string_view, kVerdictKinds> kNames{
      "holds",     "falsified", "refused",    "vacuous",
      "discarded", "crashed",   "deadlocked", "timed_out"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool is_failure(VerdictKind kind) {
  return kind == VerdictKind::kFalsified || kind == VerdictKind::kCrashed ||
         kind == VerdictKind::kDeadlocked || kind == VerdictKind::kTimedOut;
}

Verdict Verdict::discarded(std::string why) {
  Verdict result;
  result.kind = VerdictKind::kDiscarded;
  result.message = std::move(why);
  return result;
}

Verdict Verdict::vacuous(std::string why) {
  Verdict result;
  result.kind = VerdictKind::kVacuous;
  result.message = std::move(why);
  return result;
}

Verdict Verdict::falsified(std::string_view symptom, std::string message) {
  Verdict result;
  result.kind = VerdictKind::kFalsified;
  result.symptom = symptom;
  result.message = std::move(message);
  return result;
}

Verdict verdict_of_ending(const Outcome& outcome) {
  Verdict result;
  switch (outcome.ending) {
    case Ending::kCompleted:
      return result;
    case Ending::kDeadlocked:
      result.kind = VerdictKind::kDeadlocked;
      break;
    case Ending::kMismatched:
      result.kind = VerdictKind::kFalsified;
      result.symptom = "ranks disagree";
      break;
    case Ending::kThrew:
      result.kind = VerdictKind::kCrashed;
      result.symptom = "threw";
      break;
    case Ending::kCrashed:
      result.kind = VerdictKind::kCrashed;
      break;
    case Ending::kTimedOut:
      result.kind = VerdictKind::kTimedOut;
      break;
  }
  result.message = outcome.message;
  return result;
}

std::string_view name(Family family) {
  static constexpr std::array<std::string_view, 5> kNames{"oracle", "invariance", "metamorphic",
                                                          "determinism", "contract"};
  return kNames[static_cast<std::size_t>(family)];
}

std::string signature(std::string_view subject, std::string_view property, const Verdict& verdict) {
  std::string result(subject);
  result.append(" / ").append(property).append(" / ").append(name(verdict.kind));
  if (!verdict.symptom.empty()) result.append(" / ").append(verdict.symptom);
  // A work tensor has no name but its shape, which another case changes.
  const std::string_view tensor = verdict.tensor;
  if (!tensor.empty()) result.append(" / ").append(tensor.substr(0, tensor.find(" [")));
  return result;
}

}  // namespace shardproof
