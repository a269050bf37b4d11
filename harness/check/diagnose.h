// Diagnose: what a wrong run has in common with known ways to be wrong. A diagnosis is a help for
// people, never a verdict: it describes the errors and guesses where they come from.
#pragma once

#include <string>
#include <vector>

#include "harness/check/property.h"

namespace shardproof {

// What the dimensions of a tensor count: "batch", "token", "head", "feature", ...
std::vector<std::string> dimension_names(std::string_view tensor, int rank, int token_dimension);

// Sentences about a completed run whose tensors differ from the reference; empty where none does:
// which tensors are wrong, where in them, and whether the wrong values are a multiple of the right
// ones, another rank's, or all alike.
std::vector<std::string> diagnose(const Run& run);

// Whether two runs of one problem went wrong in the same way: their values agree within twice the
// bounds, and some value is wrong by more than that.
bool is_alike(const Run& run, const Run& other);

}  // namespace shardproof
