// IsolatedRuns: judges single cases in a worker process, for commands that run no campaign.
#pragma once

#include "harness/check/evaluator.h"
#include "harness/check/workers.h"

namespace shardproof {

class IsolatedRuns {
 public:
  // `properties`: judged unless an item names one.
  IsolatedRuns(const Tables& tables, std::vector<const Property*> properties, WorkerLimits limits);

  // Throws Error when the environment is wrong.
  CaseResult run(Item item);

 private:
  CaseEvaluator evaluator_;
  Workers workers_;
};

// 1 when it fails, 0 when some property holds, 2 when nothing was checked.
int exit_code(const CaseResult& result);

}  // namespace shardproof
