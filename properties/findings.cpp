#include "properties/findings.h"

#include <fmt/format.h>

namespace shardproof {

Verdict verdict_of_findings(const Outcome& outcome, Breach breach, std::string_view symptom) {
  const Finding* first = nullptr;
  int count = 0;
  for (const Finding& finding : outcome.findings) {
    if (finding.breach != breach) continue;
    if (count++ == 0) first = &finding;
  }
  if (first == nullptr) return Verdict::holds();

  Verdict result = Verdict::falsified(symptom, "");
  result.tensor = first->tensor;
  result.element = first->element;
  result.message = fmt::format("rank {}: {}", first->rank, symptom);
  if (!first->tensor.empty()) result.message += " in " + first->tensor;
  if (first->element >= 0) result.message += fmt::format(", element {}", first->element);
  if (!first->detail.empty()) result.message += ": " + first->detail;
  if (count > 1) result.message += fmt::format(" (and {} more)", count - 1);
  return result;
}

}  // namespace shardproof
