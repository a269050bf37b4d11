// Tokens: which tokens an edit of the problem cannot reach, and the comparison of what belongs to
// them, bit for bit, between the base run and a run of the edited problem.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/check/property.h"

namespace shardproof {

// Whether the problem's operator has the text key `key`, "mask" for example.
bool uses_key(const Problem& problem, std::string_view key);

// Whether the mask leaves the query any key.
bool sees_a_key(const Problem& problem, Index batch, Index query);

// A byte per (batch, query) and per (batch, key): 1 when nothing that belongs to it may move.
struct Unreached {
  Index batches = 1;
  Index queries = 0;
  Index keys = 0;
  std::vector<std::uint8_t> query{};
  std::vector<std::uint8_t> key{};
};

// Compares the variant's tensors with the base run's where they belong to unreached tokens: dk and
// dv to keys, dx to tokens that are both, every other tensor with a token dimension to queries.
// Tensors without one are sums over tokens and are left out.
Verdict verdict_of_unreached(const Evidence& evidence, const Unreached& unreached);

}  // namespace shardproof
