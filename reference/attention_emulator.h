// For tests only: an attention that computes exactly what a contract describes, rounding by
// rounding, on one thread, and the same with one deliberate fault. Shares no code with the
// reference.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/model/contract.h"
#include "harness/model/operator.h"

namespace shardproof {

enum class EmulatedFault {
  kNone,
  kDroppedKey,    // one visible key of one query is left out, forward and backward
  kScaleByDim,    // 1/dim for 1/sqrt(dim)
  kNoRescale,     // the accumulator keeps its size when the maximum grows
  kMaskOffByOne,  // queries see one key more
  kNoSoftcapDerivative,
  kBf16Accumulator,
  kMissingHead,       // the last head of each group contributes nothing to dk, dv
  kNoDlse,            // dlse is ignored
  kSinkInEveryBlock,  // each ring block's softmax starts from the sink
};

struct Emulation {
  Index tile = 8;          // keys per online-softmax step
  std::uint64_t seed = 0;  // chooses the order of every sum
  EmulatedFault fault = EmulatedFault::kNone;
};

using NamedTensors = std::map<std::string, std::vector<double>, std::less<>>;

// out, lse, dq, dk, dv (, dbias, dsink) from q, k, v (, bias, sink), dout, dlse.
NamedTensors emulate_attention(const Problem& problem, const NamedTensors& inputs,
                               const Contract& contract, const Emulation& how);

// The most online-softmax steps that a row goes through, the one for its sink included.
int rescales_of(const Problem& problem, const Contract& contract, Index tile);

}  // namespace shardproof
