// Pool: the normalised errors of many cases of one kind together. A precision that is a little
// worse than its contract stays within every element's bound and shows only in their mean.
#pragma once

#include <cmath>
#include <cstdint>

#include "harness/check/property.h"

namespace shardproof {

// The mean of (error / sigma)^2 over the elements of a tensor about which the model says something;
// negative where there is none: where sigma is unknown or 0, or one-sided errors dominate.
double mean_square_error(const Gathered& got, const ExpectedTensor& want);

// Whether errors of such data are as the model has them, neither alike nor on the edge of a format.
bool is_poolable(const Problem& problem);

class Pool {
 public:
  // The mean of a case, 0 or more.
  void add(double mean_square) {
    ++cases_;
    sum_ += static_cast<std::uint64_t>(std::fmin(mean_square, kMostOfOneCase) * kUnits);
  }

  // Of the cases of both. `sum` is that of another pool.
  void join(std::uint64_t cases, std::uint64_t sum) {
    cases_ += cases;
    sum_ += sum;
  }

  std::uint64_t cases() const { return cases_; }
  std::uint64_t sum() const { return sum_; }
  double rms() const {
    if (cases_ == 0) return 0;
    return std::sqrt(static_cast<double>(sum_) / kUnits / static_cast<double>(cases_));
  }

  // The largest RMS of a subject that keeps its contract. Cases are independent and each counts
  // between 0 and kMostOfOneCase, so that by Hoeffding (1963) their mean square exceeds its
  // expectation by kMostOfOneCase sqrt(ln(1 / p) / (2 cases)) with probability p at most.
  double limit() const;

  bool exceeds() const { return cases_ > 0 && !(rms() <= limit()); }

 private:
  // Cutting off larger means can only lower the expectation.
  static constexpr double kMostOfOneCase = 2.5;

  // The sum is a whole number of units, so that the order of cases does not matter, nor in how many
  // campaigns they were judged. Less than a unit of each is lost; 1.7e9 cases fit.
  static constexpr double kUnits = 0x1p32;

  std::uint64_t cases_ = 0;
  std::uint64_t sum_ = 0;
};

}  // namespace shardproof
