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

std::string_view name(Family family) {
  static constexpr std::array<std::string_view, 5> kNames{"oracle", "invariance", "metamorphic",
                                                          "determinism", "contract"};
  return kNames[static_cast<std::size_t>(family)];
}

std::string signature(std::string_view subject, std::string_view property, const Verdict& verdict) {
  std::string result(subject);
  result.append(" / ").append(property).append(" / ").append(name(verdict.kind));
  if (!verdict.symptom.empty()) result.append(" / ").append(verdict.symptom);
  if (!verdict.tensor.empty()) result.append(" / ").append(verdict.tensor);
  return result;
}

}  // namespace shardproof
