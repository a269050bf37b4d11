// Findings: the verdict on what a world saw ranks do that no subject may do.
#pragma once

#include <string_view>

#include "harness/check/property.h"

namespace shardproof {

// Falsified by the first finding of kind `breach`, with `symptom`; else holds.
Verdict verdict_of_findings(const Outcome& outcome, Breach breach, std::string_view symptom);

}  // namespace shardproof
