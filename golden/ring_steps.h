// At which ring step ranks met the key/value blocks that matter for one element of a failure.
#pragma once

#include <string>
#include <string_view>

#include "harness/model/case.h"
#include "harness/run/trace.h"

namespace shardproof {

// One line for the element of `tensor` at `token` of `batch`, or an empty string when the case
// moves no blocks round a cp ring. The direction of travel is read from the trace.
std::string ring_steps(const Case& value, const Trace& trace, std::string_view tensor, Index batch,
                       Index token);

}  // namespace shardproof
