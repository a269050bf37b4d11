// TimeLimit: how long something may honestly take: at least the given time, more for large cases
// and on slow machines. Generous, since a time-out counts as a failure of the subject.
#pragma once

#include <algorithm>

namespace shardproof {

class TimeLimit {
 public:
  explicit TimeLimit(double least) : least_(least) {}

  double seconds(double work) const {
    constexpr double kPessimistic = 1.0 / 2e7;  // seconds a multiply-add, all properties together
    constexpr double kSafety = 20;
    return std::max({least_, work * kPessimistic, kSafety * slowest_ * work});
  }

  void learn(double work, double seconds) {
    constexpr double kLargeEnough = 1e6;  // below, fixed costs dominate
    if (work > kLargeEnough) slowest_ = std::max(slowest_, seconds / work);
  }

 private:
  double least_;
  double slowest_ = 0;
};

}  // namespace shardproof
