// Investigator: what happens to the first failure of a signature: repeated, shrunk under the same
// signature, stored as a golden and written down, all in workers of its own.
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
  void store_lost(const Judged& judged, const Failure& failure, const std::filesystem::path& path);

  const Tables& tables_;
  Evaluator& evaluator_;
  InvestigatorOptions options_;
  Interrupt& interrupt_;
  WorkerLimits limits_;
  bool starts_fast_ = true;  // the world simulates ranks
  std::unique_ptr<Workers> workers_;
};

// The name of a failure's golden: the same for the same signature, so that finding a failure again
// replaces its file.
std::string golden_name(std::string_view subject, std::string_view property,
                        std::string_view signature);

// The signature of a result's first failure, or an empty string.
std::string failure_signature(const CaseResult& result, std::string_view subject,
                              const Tables& tables);

}  // namespace shardproof
