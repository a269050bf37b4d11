// Campaign: the search. Stored cases first, then generated ones; failures are told apart by their
// signature, and each distinct one is shrunk and stored. The same seed and number of cases give the
// same cases, verdicts and failures, however many workers there are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/check/domain.h"
#include "harness/check/evaluator.h"
#include "harness/check/part.h"
#include "harness/check/sink.h"
#include "harness/check/tally.h"
#include "harness/check/workers.h"

namespace shardproof {

// A case to judge before any is generated.
struct StoredCase {
  std::string text;
  std::string origin;  // "golden/cases/ring.case:3"
};

struct CampaignOptions {
  std::string seed = "0";
  std::optional<std::uint64_t> cases;  // generated ones; without it and `seconds`: only stored
  std::optional<double> seconds;
  Part part;                       // of the stored and of the generated cases
  const Tally* resumed = nullptr;  // goes on behind what this one has counted
  int jobs = 1;
  WorkerLimits limits;
  double shrink_seconds = 30;  // per distinct failure
  std::size_t most_failures = 50;
  std::vector<StoredCase> stored;
  std::filesystem::path goldens;  // folder for found failures; empty: not stored
  FailureStore* store = nullptr;
  std::function<bool(const Judged&)> is_enough;  // ends the campaign after such a case; may be null
};

// Runs it to its end, or until SIGINT or SIGTERM: then, as whenever sinks see progress or a
// failure, the tally counts exactly the first cases of the campaign. Throws Error when the
// environment is wrong.
Tally run_campaign(const Tables& tables, const Domain& domain, const CampaignOptions& options,
                   const std::vector<Sink*>& sinks);

}  // namespace shardproof
