#include "harness/check/noise.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace shardproof {
namespace {

// What many ranks may add for good reasons: their sums have other orders and other partial sums.
// A value rounded twice instead of once has twice the mean square.
constexpr double kLargestRatio = 1.1;

struct Energy {
  double sum = 0;
  double variance = 0;  // relative
};

double relative_variance(const std::vector<double>& groups, double sum) {
  const auto count = static_cast<double>(groups.size());
  double squares = 0;
  for (double each : groups) squares += (each - sum / count) * (each - sum / count);
  return squares / (sum * sum) * count / (count - 1);
}

Energy energy_of(const Gathered& got, const ExpectedTensor& want) {
  const auto width = static_cast<std::size_t>(want.spec.shape[want.spec.shape.rank() - 1]);
  std::vector<double> rows(want.want.size() / width), columns(width);
  Energy energy;
  for (std::size_t i = 0; i < want.want.size(); ++i) {
    if (!(want.sigma[i] > 0)) continue;
    const double error = (got.got[i] - want.want[i]) / want.sigma[i];
    rows[i / width] += error * error;
    columns[i % width] += error * error;
    energy.sum += error * error;
  }
  if (energy.sum == 0) return energy;
  energy.variance = std::max(relative_variance(rows, energy.sum),  //
                             relative_variance(columns, energy.sum));
  return energy;
}

}  // namespace

double relative_deviation(const Gathered& got, const ExpectedTensor& want) {
  return std::sqrt(energy_of(got, want).variance);
}

Noise compare_noise(const Gathered& many, const Gathered& one, const ExpectedTensor& want) {
  const Energy got = energy_of(many, want);
  const Energy base = energy_of(one, want);
  if (got.sum == 0) return {};
  const double deviation = std::sqrt(got.variance + base.variance);
  return {got.sum / base.sum, kLargestRatio * std::exp(kDeviations * deviation)};
}

}  // namespace shardproof
