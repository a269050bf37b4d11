// Errors of dS = P (dP - delta + dlse) and dX = dS (1 - tanh^2) with P recomputed from lse, and the
// bounds of dbias and dq. Errors of lse and delta are common to a row: they are kept out of the
// entries' squares and enter dq through signed sums.
#include <algorithm>
#include <cmath>

#include "reference/attention_bound.h"

namespace shardproof {
namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

// dP = dout . v: as for the logits (attention_scores_bound.cpp), without a scale. Dropout
// multiplies it and its errors by 0 or by its factor.
class DpErrors {
 public:
  explicit DpErrors(TileView& view)
      : view_(view), errors_(view.errors), width_(view.context.problem.dim_v) {}

  void set() {
    const BoundContext& context = view_.context;
    const Units& units = context.units;
    const OperandFacts& dout = view_.facts.dout;
    const OperandFacts& v = view_.facts.v;
    if (context.worst) product(dout.absolute, v.absolute_transposed, errors_.first);
    product(dout.squares, v.squares_transposed, errors_.second);
    for (Index row = 0; row < view_.tile.rows; ++row) {
      view_.products.each_visible(row, [&](std::size_t entry, Index key) {
        // Of a pair that is dropped any value does.
        const double dp = std::fabs(view_.tile.dp[entry]) / context.factor;
        const double products = errors_.second[entry];
        if (!context.fits(static_cast<double>(width_) * products, context.score_limit)) {
          errors_.overflow[at(row)] = kUnbounded;
        }
        const Family sum = accumulation(units.accumulator, static_cast<double>(width_), dp,
                                        products, errors_.first[entry]);
        const double underflow =
            units.score.eta + units.operand.eta * (dout.row_sums[at(view_.tile.first_row + row)] +
                                                   v.row_sums[at(key)]);
        const double operand_square = square(units.operand.u) * products;
        errors_.dp_worst[entry] =
            sum.worst + units.score.u * dp + underflow + 2 * units.operand.u * errors_.first[entry];
        errors_.dp_square[entry] =
            view_.facts.dp_multiplicity * sum.square + square(units.score.u * dp) + operand_square;
        errors_.dp_linear[entry] = sum.common + underflow;
        errors_.dp_coherent[entry] = operand_square;
      });
    }
    if (dout.inexact() || v.inexact()) add_input_errors();
    if (context.dropout) pass_dropout();
  }

 private:
  void pass_dropout() {
    const Rounding& type = view_.context.units.elementwise;
    for (Index row = 0; row < view_.tile.rows; ++row) {
      view_.products.each_visible(row, [&](std::size_t entry, Index) {
        const double factor = view_.tile.factor[entry];
        const double rounding = type.u * std::fabs(view_.tile.dp[entry]);
        const double underflow = factor > 0 ? type.eta : 0.0;
        errors_.dp_worst[entry] = factor * errors_.dp_worst[entry] + rounding + underflow;
        errors_.dp_square[entry] = square(factor) * errors_.dp_square[entry] + square(rounding);
        errors_.dp_linear[entry] = factor * errors_.dp_linear[entry] + underflow;
        errors_.dp_coherent[entry] *= square(factor);
      });
    }
  }

  void product(const Matrix& left, const Matrix& right, Matrix& result) {
    view_.products.scores(view_.query_rows(left, width_), width_, right, result);
  }

  void add_input_errors() {
    const OperandFacts& dout = view_.facts.dout;
    const OperandFacts& v = view_.facts.v;
    if (dout.inexact()) {
      add(dout.error_worst, v.absolute_transposed, 1, errors_.dp_worst);
      add(dout.error_common, v.absolute_transposed, 1, errors_.dp_linear);
      // Twice: the same errors reach delta.
      add(dout.error_square, v.squares_transposed, 2, errors_.dp_coherent);
    }
    if (v.inexact()) {
      add(dout.absolute, v.error_worst_transposed, 1, errors_.dp_worst);
      add(dout.absolute, v.error_common_transposed, 1, errors_.dp_linear);
      add(dout.squares, v.error_square_transposed, 1, errors_.dp_coherent);
    }
    if (dout.inexact() && v.inexact()) {
      add(dout.error_worst, v.error_worst_transposed, 1, errors_.dp_worst);
    }
    const double shared = 2 * view_.context.units.middle.u;
    for (Index row = 0; row < view_.tile.rows; ++row) {
      view_.products.each_visible(row, [&](std::size_t entry, Index) {
        errors_.dp_linear[entry] += shared * std::fabs(view_.tile.dp[entry]);
        errors_.dp_square[entry] += errors_.dp_coherent[entry];
      });
    }
  }

  void add(const Matrix& left, const Matrix& right, double factor, Matrix& target) {
    product(left, right, errors_.first);
    for (Index row = 0; row < view_.tile.rows; ++row) {
      view_.products.each_visible(
          row, [&](std::size_t entry, Index) { target[entry] += factor * errors_.first[entry]; });
    }
  }

  TileView& view_;
  TileErrors& errors_;
  Index width_;
};

class DscoreErrors {
 public:
  DscoreErrors(TileView& view, AttentionBounds& bounds)
      : view_(view),
        context_(view.context),
        units_(view.context.units),
        tile_(view.tile),
        errors_(view.errors),
        bounds_(bounds) {}

  void set() {
    for (Matrix* matrix : {&errors_.dscore_worst, &errors_.dscore_square, &errors_.dscore_linear,
                           &errors_.dscore_coherent, &errors_.dscore_underflow,
                           &errors_.growth_worst, &errors_.growth_square}) {
      view_.products.clear(*matrix);
    }
    errors_.dscore_underflows = false;
    for (Index row = 0; row < tile_.rows; ++row) set_row(row);
  }

 private:
  void set_row(Index row) {
    if (tile_.visible_count[at(row)] == 0) return;
    const double u = units_.elementwise.u;
    const double lse = tile_.lse[at(row)];
    const double last_underflow = units_.elementwise.eta + units_.operand.eta;
    double shared_dp = 0;
    view_.products.each_visible(row, [&](std::size_t entry, Index key) {
      const double logit = tile_.logit[entry];
      const double rounding = u * std::fabs(logit);
      const double difference = 2 * u * std::fabs(logit - lse);
      const double exponent_worst = errors_.logit_worst[entry] + rounding + u * std::fabs(lse) +
                                    difference + units_.exp_error + errors_.lse_worst[at(row)];
      const double exponent_square = errors_.logit_square[entry] + square(rounding) +
                                     square(u * lse) + square(difference) +
                                     square(units_.exp_error) + errors_.logit_coherent[entry];
      errors_.growth_worst[entry] = context_.worst ? relative_growth(exponent_worst) : 0.0;
      errors_.growth_square[entry] = relative_growth_square(exponent_square);
      set_entry(row, entry);
      shared_dp += tile_.probability[entry] * errors_.dp_coherent[entry];
      if (!bounds_.dbias.empty()) add_dbias(row, entry, key);
      if (context_.softcap > 0) pass_softcap(entry);
      // Underflow of the product with the slope and on entering the next product.
      errors_.dscore_worst[entry] += last_underflow;
      errors_.dscore_linear[entry] += last_underflow;
      set_underflow(row, entry);
    });
    errors_.delta_coherent[at(row)] += shared_dp;
  }

  void set_entry(Index row, std::size_t entry) {
    const double u = units_.elementwise.u;
    const double p = tile_.probability[entry];
    const double g = std::fabs(tile_.inner[entry]);
    const double ds = std::fabs(tile_.dlogit[entry]);
    const double stored = units_.score_gradient.u + units_.score_gradient_operand.u;
    const double growth = errors_.growth_worst[entry];
    // Underflow of P itself multiplies g.
    const double underflow = units_.elementwise.eta * (3 + g);
    errors_.dscore_worst[entry] =
        p * g * growth +
        p * (errors_.dp_worst[entry] + errors_.delta_worst[at(row)]) * (1 + growth) +
        (3 * u + stored) * ds + underflow;
    errors_.dscore_square[entry] =
        p * p * (g * g * errors_.growth_square[entry] + errors_.dp_square[entry]) +
        (stored * stored + 9 * u * u) * ds * ds;
    errors_.dscore_linear[entry] = p * errors_.dp_linear[entry] +
                                   p * g * std::min(errors_.logit_linear[entry], kExponentCap) +
                                   underflow;
    errors_.dscore_coherent[entry] =
        context_.coherent
            ? p * (g * g * errors_.coherent_growth[entry] + errors_.dp_coherent[entry])
            : 0.0;
  }

  // dbias = sum over the batch of dS. Every term passes through at most `batch` additions.
  void add_dbias(Index row, std::size_t entry, Index key) {
    const Problem& problem = context_.problem;
    const Index position = context_.plan.keys.global[at(key)];
    Bound bound;
    Bound& total =
        bounds_.dbias[at((view_.head() * problem.q + view_.query(row)) * problem.kv + position)];
    const double p = tile_.probability[entry];
    const double ds = std::fabs(tile_.dlogit[entry]);
    const double common = (context_.shared_dscore + errors_.lse_linear[at(row)]) * ds +
                          errors_.delta_linear[at(row)] * p + errors_.dscore_linear[entry];
    bound.add(Family{context_.if_worst(errors_.dscore_worst[entry]),
                     errors_.dscore_square[entry] + errors_.dscore_coherent[entry] +
                         p * p * errors_.delta_square[at(row)] +
                         ds * ds * errors_.lse_square[at(row)],
                     common});
    bound.add(static_cast<double>(problem.batch) * units_.accumulator.u * ds +
              units_.score_gradient.underflow(ds, underflow_reach(entry)));
    if (errors_.overflow[at(row)] > 0) bound = Bound::unbounded();
    total.merge(bound.scaled(errors_.recomputed[at(row)]));
  }

  // dX = dS * slope; the slope's own error comes from x and from 1 - tanh^2.
  void pass_softcap(std::size_t entry) {
    const double cap = context_.softcap;
    const double u = units_.elementwise.u;
    const double t = std::fabs(tile_.tanh[entry]);
    const double ds = std::fabs(tile_.dlogit[entry]);
    const double nearby = errors_.derivative_nearby[entry];
    const double bend = std::min(1.0, t + errors_.scaled_worst[entry] / cap);
    const double library = 2 * u * (1 + context_.precision.ulp_tanh * t * t);
    const double slope_worst = 2 * bend * nearby * errors_.scaled_worst[entry] / cap + library;
    errors_.dscore_worst[entry] =
        errors_.dscore_worst[entry] * (nearby + slope_worst) + ds * slope_worst;
    errors_.dscore_square[entry] =
        errors_.dscore_square[entry] * square(nearby) +
        ds * ds * (square(2 * t * nearby / cap) * errors_.scaled_square[entry] + square(library));
    errors_.dscore_linear[entry] = errors_.dscore_linear[entry] * nearby +
                                   ds * 2 * t * nearby / cap * errors_.scaled_linear[entry];
    errors_.dscore_coherent[entry] *= square(nearby);
  }

  double underflow_reach(std::size_t entry) const {
    return context_.if_worst(errors_.dscore_worst[entry]);
  }

  void set_underflow(Index row, std::size_t entry) {
    const double magnitude = std::fabs(tile_.dscore[entry]);
    const double lost = underflow_of(units_.score_gradient, units_.score_gradient_operand,
                                     magnitude, underflow_reach(entry));
    errors_.dscore_underflow[entry] = lost;
    errors_.dscore_underflows = errors_.dscore_underflows || lost > 0;
    const double most = 2 * (square(magnitude) + square(kLambda) * errors_.dscore_square[entry]);
    if (!context_.fits(most, context_.dscore_limit)) errors_.overflow[at(row)] = kUnbounded;
  }

  TileView& view_;
  const BoundContext& context_;
  const Units& units_;
  const QueryTile<double>& tile_;
  TileErrors& errors_;
  AttentionBounds& bounds_;
};

}  // namespace

void set_dscore_errors(TileView& view, AttentionBounds& bounds) {
  DpErrors(view).set();
  DscoreErrors(view, bounds).set();
}

}  // namespace shardproof
