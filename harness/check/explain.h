// Explain: after shrinking, what of the case the failure needs. Each field alone is changed to
// other values, and a sentence says which of them still fail.
#pragma once

#include <string>

#include "harness/check/shrink.h"

namespace shardproof {

// "needs mesh.cp >= 2, mask=causal; any dim, dtype; data=normal or peaked but not integer". Empty
// when nothing could be varied. `shrunk` fails; calls `still_fails` at most a few times a field.
std::string explain(const Case& shrunk, const Subject& subject, const Vocabulary& vocabulary,
                    const StillFails& still_fails);

}  // namespace shardproof
