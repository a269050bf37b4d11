// Bounds of dsink, the gradient of a head's sink s. The sink is a key with the logit s and the
// value 0, so that dP = 0: dsink = -sum over rows of P_s (delta - dlse) with P_s = exp(s - lse),
// whose terms are bounded as dS of a key is (attention_backward_bound.cpp).
#include <algorithm>
#include <cmath>

#include "reference/attention_bound.h"

namespace shardproof {
namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

// Adds one row. delta of a row without keys is exactly 0.
void add_row(const TileView& view, Index row, SinkSums& sums) {
  const Units& units = view.context.units;
  const TileErrors& errors = view.errors;
  const auto r = at(row);
  const double u = units.elementwise.u;
  const bool sees_keys = view.tile.visible_count[r] > 0;
  const double delta_worst = sees_keys ? errors.delta_worst[r] : 0.0;
  const double delta_square = sees_keys ? errors.delta_square[r] : 0.0;
  const double delta_linear = sees_keys ? errors.delta_linear[r] : 0.0;
  const double sink = view.group.sink[at(view.tile.head)];
  const double lse = view.tile.lse[r];
  const double p = view.tile.sink_probability[r];
  const double ds = std::fabs(view.tile.dsink[r]);
  const double g = std::fabs(view.tile.delta[r] - view.group.dlse[at(view.tile.first_row + row)]);
  const double difference = 2 * u * std::fabs(sink - lse);
  const double exponent_worst =
      u * (std::fabs(sink) + std::fabs(lse)) + difference + units.exp_error + errors.lse_worst[r];
  const double exponent_square =
      square(u * sink) + square(u * lse) + square(difference) + square(units.exp_error);
  const double growth = view.context.worst ? relative_growth(exponent_worst) : 0.0;
  // Of the products, and of P itself, times g.
  const double underflow = units.elementwise.eta * (3 + g);
  sums.terms += 1;
  sums.worst += p * g * growth + p * delta_worst * (1 + growth) + 3 * u * ds + underflow;
  sums.square += ds * ds * (relative_growth_square(exponent_square) + 9 * u * u) +
                 p * p * delta_square + ds * ds * errors.lse_square[r];
  sums.linear +=
      (units.exp_error + 4 * u + errors.lse_linear[r]) * ds + p * delta_linear + underflow;
  sums.absolute += ds;
  sums.squares += ds * ds;
  sums.probability += p;
  sums.lse_coherent += ds * errors.lse_coherent[r];
  if (sees_keys) sums.delta_coherent += p * errors.delta_coherent[r];
  sums.recomputed = std::max(sums.recomputed, errors.recomputed[r]);
  sums.overflow = std::max(sums.overflow, errors.overflow[r]);
}

}  // namespace

void add_to_sink(const TileView& view, SinkSums& sums) {
  for (Index row = 0; row < view.tile.rows; ++row) add_row(view, row, sums);
}

Bound bound_sink(const BoundContext& context, const SinkSums& sums, double want) {
  if (sums.terms == 0) return {};
  const bool fits = context.fits(sums.terms * sums.squares, context.accumulator_limit);
  if (!fits || sums.overflow > 0) return Bound::unbounded();
  // Operand roundings of keys and values reach every row's lse and delta: by Cauchy-Schwarz
  // (sum_i w_i e_i)^2 <= sum_i w_i sum_i w_i e_i^2, for lse and delta together at most twice that.
  const double coherent =
      2 * (sums.absolute * sums.lse_coherent + sums.probability * sums.delta_coherent);
  Bound bound;
  bound.add(Family{context.if_worst(sums.worst), sums.square + coherent, sums.linear});
  bound.add(accumulation(context.units.accumulator, sums.terms, want, sums.squares,
                         context.if_worst(sums.absolute)));
  return bound.scaled(sums.recomputed);
}

}  // namespace shardproof
