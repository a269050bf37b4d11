// Limits: how small a wrong factor on a whole tensor may be and still be seen. Kept as a histogram
// in powers of two, so that a campaign's memory does not grow.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace shardproof {

class Limits {
 public:
  // `limit`: a relative change; not finite or not positive: nothing would be seen or there is
  // nothing to change, which is left out.
  void add(double limit) {
    if (!(limit > 0) || !std::isfinite(limit)) return;
    const int power = std::clamp(-std::ilogb(limit), 0, static_cast<int>(counts_.size()) - 1);
    ++counts_[static_cast<std::size_t>(power)];
    ++total_;
  }

  using Counts = std::array<std::uint64_t, 64>;  // by -log2

  std::uint64_t total() const { return total_; }
  const Counts& counts() const { return counts_; }

  void join(const Counts& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      counts_[i] += other[i];
      total_ += other[i];
    }
  }

  // The limit that `share` of the cases reach or beat, rounded up to a power of two; 0: no case.
  double quantile(double share) const {
    std::uint64_t seen = 0;
    for (std::size_t i = counts_.size(); i-- > 0;) {
      seen += counts_[i];
      const bool enough = static_cast<double>(seen) >= share * static_cast<double>(total_);
      if (seen > 0 && enough) return std::ldexp(1.0, 1 - static_cast<int>(i));
    }
    return 0;
  }

 private:
  Counts counts_{};
  std::uint64_t total_ = 0;
};

}  // namespace shardproof
