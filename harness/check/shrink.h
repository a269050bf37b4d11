// Shrinking: from a failing case to one that is a local minimum in every field and fails in the
// same way. Deterministic: a pure function of the case and of what `still_fails` answers.
#pragma once

#include <functional>

#include "harness/check/judge.h"

namespace shardproof {

// Whether a valid case fails with the same signature.
using StillFails = std::function<bool(const Case&)>;

struct Shrunk {
  Case value;
  int evaluations = 0;     // calls of still_fails; no case is asked for twice
  bool is_minimal = true;  // false: the evaluations ran out before
};

// `failing` fails by definition and is not evaluated again.
Shrunk shrink(const Case& failing, const Subject& subject, const Vocabulary& vocabulary,
              const StillFails& still_fails, int most_evaluations = 1000);

}  // namespace shardproof
