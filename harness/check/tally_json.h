// A tally as JSON and back, exactly: what a journal keeps of a campaign. Failures are kept apart,
// once each; of them the tally's JSON has only how often each was seen.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "harness/check/tally.h"

namespace shardproof {

using Json = nlohmann::ordered_json;

// One line; bytes that are no UTF-8 are replaced.
std::string line_of(const Json& json);

Json failure_to_json(const Failure& failure);
Failure failure_from_json(const Json& json);

Json tally_to_json(const Tally& tally);

// `failures`: all that the campaign had found by then, in order. Throws Error when the JSON does
// not fit the domain, and exceptions of Json when it is no tally.
Tally tally_from_json(const Json& json, std::vector<Failure> failures, const Domain& domain,
                      const Tables& tables);

}  // namespace shardproof
