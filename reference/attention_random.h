// For tests only: random small attention problems with random contracts, and how a result compares
// with the reference's bounds.
#pragma once

#include <cstdint>
#include <string>

#include "reference/attention_emulator.h"

namespace shardproof {

// A stream of numbers that depends on its seed alone.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t bits();
  Index between(Index low, Index high);
  bool chance(int percent) { return between(0, 99) < percent; }

  template <class List>
  auto from(const List& list) {
    return *(std::begin(list) + between(0, static_cast<Index>(std::size(list)) - 1));
  }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

struct RandomCase {
  Problem problem;
  Contract contract;
  Emulation emulation;

  std::string text() const;
};

// Every mask, bias, dtype and data recipe; tokens up to `most_tokens`. Valid.
Problem random_problem(Draw& draw, Index most_tokens);

// Any precision that suits the problem's dtype, ring blocks by any layout.
Contract random_contract(Draw& draw, const Problem& problem);

RandomCase random_case(std::uint64_t seed, Index most_tokens);

NamedTensors inputs_of(const Problem& problem);

// The largest error over bound of one comparison; infinity where one is wrong at all.
struct Excess {
  double worst = 0;
  double likely = 0;
  std::string tensor;  // of the largest `likely`
  Index element = 0;
};

Excess excess(const Expected& expected, const NamedTensors& got);

}  // namespace shardproof
