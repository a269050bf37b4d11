#include "harness/check/coverage.h"

namespace shardproof {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

Coverage::Coverage(const Domain& domain) : domain_(domain), sizes_(pair_sizes(domain)) {
  std::size_t size = 0;
  for (std::size_t i = 0; i < kPairDimensions; ++i) {
    for (std::size_t j = i + 1; j < kPairDimensions; ++j) {
      offsets_[i][j] = size;
      size += at(sizes_[i]) * at(sizes_[j]);
    }
  }
  possible_.resize(size);
  covered_.resize(size);
  for (const Pair& pair : possible_pairs(domain)) {
    possible_[cell(pair.first, pair.second, pair.first_value, pair.second_value)] = true;
  }
}

std::size_t Coverage::cell(int first, int second, int first_value, int second_value) const {
  return offsets_[at(first)][at(second)] + at(first_value * sizes_[at(second)] + second_value);
}

void Coverage::add(const Case& value) {
  const PairValues values = pair_values(value, domain_);
  ++cases_;
  for (int i = 0; i < kPairDimensions; ++i) {
    for (int j = i + 1; j < kPairDimensions; ++j) {
      const int a = values[at(i)];
      const int b = values[at(j)];
      if (a < 0 || b < 0 || a >= sizes_[at(i)] || b >= sizes_[at(j)]) continue;
      const std::size_t pair = cell(i, j, a, b);
      if (possible_[pair] && !covered_[pair]) last_new_ = cases_;
      covered_[pair] = true;
    }
  }
}

std::vector<Coverage::Count> Coverage::counts() const {
  std::vector<Count> result;
  for (int i = 0; i < kPairDimensions; ++i) {
    for (int j = i + 1; j < kPairDimensions; ++j) {
      Count count{kPairNames[at(i)], kPairNames[at(j)]};
      const std::size_t first = cell(i, j, 0, 0);
      const std::size_t end = first + at(sizes_[at(i)] * sizes_[at(j)]);
      for (std::size_t pair = first; pair < end; ++pair) {
        count.possible += possible_[pair];
        count.covered += possible_[pair] && covered_[pair];
      }
      if (count.possible > 0) result.push_back(count);
    }
  }
  return result;
}

Coverage::Count Coverage::total() const {
  Count result;
  for (const Count& count : counts()) {
    result.covered += count.covered;
    result.possible += count.possible;
  }
  return result;
}

}  // namespace shardproof
