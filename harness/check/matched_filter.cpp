#include "harness/check/matched_filter.h"

#include <cmath>

#include "harness/model/require.h"

namespace shardproof {

// With w = 1 / sigma^2 and D = alternative - want: share = <w error, D> / <w D, D> and
// power = sqrt(<w D, D>), summed over all tensors that the fault changes (numerics, "MF").
Fit fit(const Run& run, const Hypothesis& hypothesis) {
  const Expected& answer = run.expected(Effort::kLikely);
  double product = 0;
  double square = 0;
  for (const auto& other : hypothesis.alternative(run.value.problem, run.contract, answer)) {
    const ExpectedTensor* want = answer.find(other.spec.name);
    const Gathered* got = run.outcome.find(other.spec.name);
    require(want != nullptr && got != nullptr && other.want.size() == want->want.size(),
            "a hypothesis speaks of tensors of its operator");
    for (std::size_t i = 0; i < want->want.size(); ++i) {
      const double change = (other.want[i] - want->want[i]) / want->sigma[i];
      const double error = (got->got[i] - want->want[i]) / want->sigma[i];
      if (!std::isfinite(change) || !std::isfinite(error)) continue;
      product += change * error;
      square += change * change;
    }
  }
  return square > 0 ? Fit{product / square, std::sqrt(square)} : Fit{};
}

}  // namespace shardproof
