// Pairs: which values of two dimensions of (operator, mask, dtype, layout, mesh shape, data) can
// meet in a case of a domain. Most faults need two particular values to meet.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/check/domain.h"

namespace shardproof {

inline constexpr int kPairDimensions = 6;
inline constexpr std::array<std::string_view, kPairDimensions> kPairNames{
    "operator", "mask", "dtype", "layout", "mesh", "data"};

// One value a dimension, as its table numbers them; -1: not used by the case.
using PairValues = std::array<int, kPairDimensions>;

// How many values each dimension has at most.
std::array<int, kPairDimensions> pair_sizes(const Domain& domain);

PairValues pair_values(const Case& value, const Domain& domain);

// The values of each dimension that a case of `subject` may have.
std::array<std::vector<int>, kPairDimensions> pair_choices(const Domain& domain,
                                                           const Subject& subject);

// Two values that can meet, and whose cases they meet in.
struct Pair {
  int first = 0;  // dimensions, first < second
  int second = 0;
  int first_value = 0;
  int second_value = 0;
  std::vector<std::size_t> subjects;  // positions in Domain::subjects
};

std::vector<Pair> possible_pairs(const Domain& domain);

// Sets the fields of `value` that make up a dimension; `random` chooses among meshes of one shape.
// Repair may undo it.
void set_dimension(Case& value, int dimension, int to, const Domain& domain, std::uint64_t random);

}  // namespace shardproof
