// Input values: a pure function of (seed, tensor, position), the same on every machine, so that
// ranks make their own shards and nothing is scattered. Only +, -, *, / and sqrt are used.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/model/operator.h"
#include "harness/model/problem.h"

namespace shardproof {

// A 64-bit hash of `value` (the finaliser of SplitMix64, Steele et al. 2014).
inline std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

// The elements of input or upstream tensor `spec` at the given global row-major positions, rounded
// to spec.dtype.
void fill_elements(const Problem& problem, const TensorSpec& spec, std::span<const Index> positions,
                   std::span<double> values);

// The whole tensor, row-major.
std::vector<double> whole_tensor(const Problem& problem, const TensorSpec& spec);

}  // namespace shardproof
