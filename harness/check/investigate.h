// Investigator: what happens to the first failure of a signature: repeated, shrunk under the same
// signature, stored as a golden and written down, all in a worker of its own.
#pragma once

#include <filesystem>
#include <memory>

#include "harness/check/evaluator.h"
#include "harness/check/interrupt.h"
#include "harness/check/tally.h"

namespace shardproof {

struct InvestigatorOptions {
  WorkerLimits limits;
  double shrink_seconds = 30;
  std::filesystem::path goldens;  // empty: not stored
  FailureStore* store = nullptr;
};

class Investigator {
 public:
  Investigator(const Tables& tables, Evaluator& evaluator, InvestigatorOptions options,
               Interrupt& interrupt);

  Failure investigate(const Judged& judged);

 private:
  CaseResult evaluate(Item item);
  void keep(const Judged& judged, const PropertyResult& failed, Failure& failure);
  void journal(const Failure& failure, std::string_view event);

  const Tables& tables_;
  Evaluator& evaluator_;
  InvestigatorOptions options_;
  Interrupt& interrupt_;
  std::unique_ptr<Workers> workers_;
};

// The signature of a result's first failure, or an empty string.
std::string failure_signature(const CaseResult& result, std::string_view subject,
                              const Tables& tables);

}  // namespace shardproof
