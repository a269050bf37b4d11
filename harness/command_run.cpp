#include "harness/command_run.h"

#include <algorithm>

#include "harness/command.h"
#include "harness/model/require.h"

namespace shardproof {

IsolatedRuns::IsolatedRuns(const Tables& tables, std::vector<const Property*> properties,
                           WorkerLimits limits)
    : evaluator_(tables, std::move(properties), nullptr, nullptr),
      workers_(evaluator_, 1, limits) {}

CaseResult IsolatedRuns::run(Item item) {
  workers_.give({std::move(item)});
  for (;;) {
    std::vector<Finished> finished = workers_.wait(1);
    if (finished.empty()) continue;
    if (!finished.front().result.trouble.empty()) throw Error(finished.front().result.trouble);
    return std::move(finished.front().result);
  }
}

int exit_code(const CaseResult& result) {
  if (is_failure(result.overall)) return kExitFalsified;
  const bool checked = std::any_of(
      result.properties.begin(), result.properties.end(),
      [](const PropertyResult& each) { return each.verdict.kind == VerdictKind::kHolds; });
  return checked ? kExitHolds : kExitUnusable;
}

}  // namespace shardproof
