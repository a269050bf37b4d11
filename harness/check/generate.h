// Generator: case number `index` of a campaign, a pure function of (seed, index, domain).
// RapidCheck draws every size, a hash every choice, independently; repair then makes it valid.
// Every fourth case has the next pair of values (pairs.h), so that none waits for luck.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/check/pairs.h"

namespace shardproof {

class Generator {
 public:
  Generator(const Domain& domain, std::uint64_t seed);
  ~Generator();

  Case draw(std::uint64_t index) const;

 private:
  struct Drawers;
  Case attempt(std::uint64_t index, std::uint64_t attempt) const;
  const Pair* pair_of(std::uint64_t index) const;

  Domain domain_;
  std::uint64_t seed_;
  std::vector<const Operator*> operators_;  // one a subject
  std::vector<Pair> pairs_;
  std::unique_ptr<Drawers> drawers_;
};

// A campaign's seed from its text: a decimal number, or anything else (a commit hash) hashed.
std::uint64_t campaign_seed(std::string_view text);

}  // namespace shardproof
