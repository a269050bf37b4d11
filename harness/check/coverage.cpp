#include "harness/check/coverage.h"

#include <algorithm>

#include "harness/model/require.h"

namespace shardproof {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

void note(std::uint64_t& first, std::uint64_t other) {
  if (other > 0 && (first == 0 || other < first)) first = other;
}

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
  first_.resize(size);
  for (const Pair& pair : possible_pairs(domain)) {
    possible_[cell(pair.first, pair.second, pair.first_value, pair.second_value)] = true;
  }
}

std::size_t Coverage::cell(int first, int second, int first_value, int second_value) const {
  return offsets_[at(first)][at(second)] + at(first_value * sizes_[at(second)] + second_value);
}

void Coverage::add(const Case& value, std::uint64_t by) {
  const PairValues values = pair_values(value, domain_);
  for (int i = 0; i < kPairDimensions; ++i) {
    for (int j = i + 1; j < kPairDimensions; ++j) {
      const int a = values[at(i)];
      const int b = values[at(j)];
      if (a < 0 || b < 0 || a >= sizes_[at(i)] || b >= sizes_[at(j)]) continue;
      const std::size_t pair = cell(i, j, a, b);
      if (possible_[pair]) note(first_[pair], by + 1);
    }
  }
}

void Coverage::join(const std::vector<std::uint64_t>& first) {
  if (first.size() != first_.size()) throw Error("the pairs of values are those of other cases");
  for (std::size_t pair = 0; pair < first.size(); ++pair) note(first_[pair], first[pair]);
}

std::uint64_t Coverage::last_new() const {
  const auto last = std::max_element(first_.begin(), first_.end());
  return last == first_.end() || *last == 0 ? 0 : *last - 1;
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
        count.covered += first_[pair] > 0;
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
