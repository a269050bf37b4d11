// Errors of the logits z = cap tanh(scale q.k / cap) + bias, absolute, per (query, key).
#include <algorithm>
#include <cmath>

#include "reference/attention_bound.h"

namespace shardproof {
namespace {

// Adds what the errors of q and k do to scale * q.k, and the roundings of operands that enter the
// product. The error of one element of q is shared by its row of scores, of k by its column: the
// quadratic part is `coherent`.
class OperandErrors {
 public:
  explicit OperandErrors(TileView& view) : view_(view), dim_(view.context.problem.dim) {}

  void add() {
    if (view_.context.units.operand.exists()) add_operand_roundings();
    if (view_.facts.q.inexact() || view_.facts.k.inexact()) add_input_errors();
  }

 private:
  template <class Function>
  void each(Function function) {
    for (Index row = 0; row < view_.tile.rows; ++row) {
      view_.products.each_visible(row,
                                  [&](std::size_t entry, Index key) { function(entry, row, key); });
    }
  }

  // Expects errors.first = |q||k| and errors.second = q^2 k^2.
  void add_operand_roundings() {
    TileErrors& errors = view_.errors;
    const Rounding& type = view_.context.units.operand;
    const double scale = view_.context.scale;
    const double multiplicity = view_.facts.logit_multiplicity;
    each([&](std::size_t entry, Index row, Index key) {
      const auto stacked = static_cast<std::size_t>(view_.tile.first_row + row);
      const double underflow =
          scale * type.eta *
          (view_.facts.q.row_sums[stacked] + view_.facts.k.row_sums[static_cast<std::size_t>(key)]);
      errors.logit_worst[entry] += 2 * type.u * scale * errors.first[entry] + underflow;
      errors.logit_linear[entry] += underflow;
      errors.logit_coherent[entry] += multiplicity * square(type.u * scale) * errors.second[entry];
    });
  }

  void add_input_errors() {
    const OperandFacts& q = view_.facts.q;
    const OperandFacts& k = view_.facts.k;
    if (q.inexact()) {
      add_worst(q.error_worst, k.absolute_transposed);
      add_linear(q.error_common, k.absolute_transposed);
      add_coherent(q.error_square, k.squares_transposed);
    }
    if (k.inexact()) {
      add_worst(q.absolute, k.error_worst_transposed);
      add_linear(q.absolute, k.error_common_transposed);
      add_coherent(q.squares, k.error_square_transposed);
    }
    if (q.inexact() && k.inexact()) add_worst(q.error_worst, k.error_worst_transposed);
    // Roundings of a whole operand that lean one way scale all scores alike.
    const double shared = 2 * view_.context.units.middle.u;
    each([&](std::size_t entry, Index, Index) {
      view_.errors.logit_linear[entry] += shared * std::fabs(view_.tile.scaled[entry]);
    });
  }

  void add_worst(const Matrix& left, const Matrix& right) {
    if (view_.context.worst)
      add_product_to(left, right, view_.context.scale, view_.errors.logit_worst);
  }
  void add_linear(const Matrix& left, const Matrix& right) {
    add_product_to(left, right, view_.context.scale, view_.errors.logit_linear);
  }
  void add_coherent(const Matrix& left, const Matrix& right) {
    add_product_to(left, right, square(view_.context.scale), view_.errors.logit_coherent);
  }

  void add_product_to(const Matrix& left, const Matrix& right, double factor, Matrix& target) {
    view_.products.scores(view_.query_rows(left, dim_), dim_, right, view_.errors.first);
    each([&](std::size_t entry, Index, Index) {
      target[entry] += factor * view_.errors.first[entry];
    });
  }

  TileView& view_;
  Index dim_;
};

// The error of x = scale * q.k by the accumulation and its own roundings.
void set_accumulation_errors(TileView& view) {
  const BoundContext& context = view.context;
  const Units& units = context.units;
  TileErrors& errors = view.errors;
  const Index dim = context.problem.dim;
  if (context.worst) {
    view.products.scores(view.query_rows(view.facts.q.absolute, dim), dim,
                         view.facts.k.absolute_transposed, errors.first);
  }
  view.products.scores(view.query_rows(view.facts.q.squares, dim), dim,
                       view.facts.k.squares_transposed, errors.second);
  const double scale = context.scale;
  const double rounding = units.elementwise.u + units.score.u;
  const double rounding_square = square(units.elementwise.u) + square(units.score.u);
  const double underflow = units.elementwise.eta + units.score.eta;
  for (Index row = 0; row < view.tile.rows; ++row) {
    double& overflow = errors.overflow[static_cast<std::size_t>(row)];
    overflow = 0;
    view.products.each_visible(row, [&](std::size_t entry, Index) {
      const double x = std::fabs(view.tile.scaled[entry]);
      const double products = static_cast<double>(dim) * errors.second[entry];
      if (!context.fits(products, context.accumulator_limit) ||
          !context.fits(square(scale) * products, context.score_limit)) {
        overflow = kUnbounded;
      }
      const Family sum =
          accumulation(units.accumulator, static_cast<double>(dim), x,
                       square(scale) * errors.second[entry], scale * errors.first[entry], scale);
      errors.logit_worst[entry] = sum.worst + rounding * x + underflow;
      errors.logit_square[entry] =
          view.facts.logit_multiplicity * sum.square + rounding_square * x * x;
      errors.logit_linear[entry] = sum.common + underflow;
      errors.logit_coherent[entry] = 0;
    });
  }
}

// y = cap tanh(x / cap): the slope within the error of x is at most 1 - tanh^2 times exp(2 e /
// cap), because the logarithm of the slope changes by at most 2 / cap.
void pass_softcap(TileView& view) {
  const BoundContext& context = view.context;
  TileErrors& errors = view.errors;
  const double cap = context.softcap;
  const double u = context.units.elementwise.u;
  for (Index row = 0; row < view.tile.rows; ++row) {
    view.products.each_visible(row, [&](std::size_t entry, Index) {
      const double t = std::fabs(view.tile.tanh[entry]);
      const double slope = 1 - t * t;
      const double error =
          context.worst
              ? errors.logit_worst[entry]
              : errors.logit_linear[entry] + kLambda * std::sqrt(errors.logit_square[entry] +
                                                                 2 * errors.logit_coherent[entry]);
      const double nearby = std::min(1.0, slope * (1 + relative_growth(2 * error / cap)));
      errors.scaled_worst[entry] = errors.logit_worst[entry];
      errors.scaled_square[entry] = errors.logit_square[entry] + 2 * errors.logit_coherent[entry];
      errors.scaled_linear[entry] = errors.logit_linear[entry];
      errors.derivative[entry] = slope;
      errors.derivative_nearby[entry] = nearby;
      const double library = cap * t * (context.units.tanh_error + u) +
                             2 * u * std::fabs(view.tile.scaled[entry]) * slope;
      errors.logit_worst[entry] = nearby * errors.logit_worst[entry] + library;
      errors.logit_square[entry] = square(nearby) * errors.logit_square[entry] + square(library);
      errors.logit_linear[entry] *= nearby;
      errors.logit_coherent[entry] *= square(nearby);
    });
  }
}

void add_bias_rounding(TileView& view) {
  const double u = view.context.units.elementwise.u;
  for (Index row = 0; row < view.tile.rows; ++row) {
    view.products.each_visible(row, [&](std::size_t entry, Index) {
      const double rounding = u * std::fabs(view.tile.logit[entry]);
      view.errors.logit_worst[entry] += rounding;
      view.errors.logit_square[entry] += square(rounding);
    });
  }
}

}  // namespace

void set_logit_errors(TileView& view) {
  set_accumulation_errors(view);
  OperandErrors(view).add();
  if (view.context.softcap > 0) pass_softcap(view);
  if (view.context.problem.bias != ScoreBias::kNone) add_bias_rounding(view);
}

}  // namespace shardproof
