// CollectiveCall: one member's part in a collective, and what it means for every other member: what
// it hands to each and expects from each. Worlds agree about it, and check that members do.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "harness/run/tensor.h"

namespace shardproof {

// `data` is what the operation's signature calls data or mine.
struct CollectiveCall {
  std::string_view operation;  // as the trace names it; static storage
  View data = {};
  std::span<const View> parts = {};     // all_gather, reduce_scatter: parts; all_to_all: sent
  std::span<const View> received = {};  // all_to_all
  int root = -1;                        // broadcast
};

bool is_all_reduce(std::string_view operation);
bool is_reduction(std::string_view operation);

// What the caller hands to the member at position `to`, and where it puts what comes from the one
// at `from`; null for a barrier.
const View* given(const CollectiveCall& call, int to);
const View* taken(const CollectiveCall& call, int from);

// Payload bytes that the member at `position` hands in.
Index handed_in(const CollectiveCall& call, int position);

// "12 bf16 elements"
std::string size_text(Index elements, DType dtype);

}  // namespace shardproof
