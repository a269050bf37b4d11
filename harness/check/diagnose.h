// Diagnose: what a wrong run has in common with known ways to be wrong. A diagnosis is a help for
// people, never a verdict: it describes the errors and guesses where they come from.
#pragma once

#include <string>
#include <vector>

#include "harness/check/judge.h"

namespace shardproof {

// What the dimensions of a tensor count: "batch", "token", "head", "feature", ...
std::vector<std::string> dimension_names(std::string_view tensor, int rank, int token_dimension);

// Sentences about a completed run whose tensors differ from the reference; empty where none does:
// which tensors are wrong, where in them, and whether the wrong values are a multiple of the right
// ones, another rank's, or all alike.
std::vector<std::string> diagnose(const Run& run);

// Whether two runs of one problem went wrong in the same way: their values agree within twice the
// bounds, where one is wrong within half its error, and both are wrong in some element.
bool is_alike(const Run& run, const Run& other);

// Whether one property says the same of two subjects, to the last digit.
bool is_alike(const Judgement& failure, const Judgement& other);

}  // namespace shardproof
