#include "harness/check/pool.h"

namespace shardproof {
namespace {

// The square of the RMS that contracts permit, without any sampling error: 1 by the model, whose
// roundings are uniform; 1.03 was measured on large tensors of honest 16-bit runs (numerics, 8.3).
constexpr double kExpected = 1.06 * 1.06;

// ln(1 / p) for p = 1e-9: with the few thousand pools of a campaign, one false alarm in 1e5 of
// them.
constexpr double kLogImprobability = 20.7;

// Where T2 is more than this many sigma, one-sided errors dominate: four times what zero-mean ones
// make of it (numerics, T3).
constexpr double kMostBias = 24;

}  // namespace

double mean_square_error(const Gathered& got, const ExpectedTensor& want) {
  if (got.got.size() != want.sigma.size()) return -1;
  double sum = 0;
  double count = 0;
  for (std::size_t i = 0; i < want.sigma.size(); ++i) {
    const double sigma = want.sigma[i];
    const double error = (got.got[i] - want.want[i]) / sigma;
    if (!(sigma > 0 && want.likely[i] <= kMostBias * sigma && std::isfinite(error))) continue;
    sum += error * error;
    count += 1;
  }
  return count > 0 ? sum / count : -1;
}

bool is_poolable(const Problem& problem) {
  return problem.data == DataRecipe::kNormal && problem.edit == Edit::kNone;
}

double Pool::limit() const {
  const double margin =
      kMostOfOneCase * std::sqrt(kLogImprobability / (2 * static_cast<double>(cases_)));
  return std::sqrt(kExpected + margin);
}

}  // namespace shardproof
