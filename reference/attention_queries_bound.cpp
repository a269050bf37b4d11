// Bounds of dq = scale * dX k.
#include <cmath>

#include "reference/attention_bound.h"

namespace shardproof {
namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

class QueryBound {
 public:
  QueryBound(TileView& view, AttentionBounds& bounds)
      : view_(view),
        context_(view.context),
        units_(view.context.units),
        tile_(view.tile),
        errors_(view.errors),
        bounds_(bounds),
        width_(view.context.problem.dim) {}

  void run() {
    set_products();
    for (Index row = 0; row < tile_.rows; ++row) {
      if (tile_.visible_count[at(row)] > 0) bound_row(row);
    }
  }

 private:
  // target = function(entry) for all entries of the segments.
  template <class Function>
  void fill(Matrix& target, Function function) {
    for (Index row = 0; row < tile_.rows; ++row) {
      for (const Segment& s : tile_.segments) {
        for (Index key = s.first; key < s.last; ++key) {
          const std::size_t entry = at(row * view_.products.keys + key);
          target[entry] = function(entry);
        }
      }
    }
  }

  void set_products() {
    const OperandFacts& k = view_.facts.k;
    const bool capped = context_.softcap > 0;
    Matrix& weights = errors_.first;
    fill(weights,
         [&](std::size_t e) { return errors_.dscore_square[e] + errors_.dscore_coherent[e]; });
    view_.products.rows(weights, k.squares, width_, square_);
    fill(weights, [&](std::size_t e) { return square(tile_.dscore[e]); });
    view_.products.rows(weights, k.squares, width_, products_);
    if (k.inexact()) view_.products.rows(weights, k.error_square, width_, input_square_);
    fill(weights, [&](std::size_t e) {
      const double p = tile_.probability[e];
      return capped && p > 0 ? p * errors_.derivative[e] : p;
    });
    view_.products.rows(weights, view_.group.k, width_, signed_delta_);
    fill(weights, [&](std::size_t e) { return std::fabs(tile_.dscore[e]); });
    if (k.inexact()) view_.products.rows(weights, k.error_common, width_, input_common_);
    if (context_.worst) {
      view_.products.rows(weights, k.absolute, width_, absolute_);
      view_.products.rows(errors_.dscore_worst, k.absolute, width_, worst_);
      if (k.inexact()) set_input_worst();
    }
    if (errors_.dscore_underflows) {
      view_.products.rows(errors_.dscore_underflow, k.absolute, width_, underflow_);
    }
    if (context_.ring_queries) set_parts();
  }

  void set_input_worst() {
    Matrix& weights = errors_.first;
    fill(weights,
         [&](std::size_t e) { return std::fabs(tile_.dscore[e]) + errors_.dscore_worst[e]; });
    view_.products.rows(weights, view_.facts.k.error_worst, width_, input_worst_);
  }

  // Each key block's part of dq: they are added up in query_gradient's type.
  void set_parts() {
    const std::size_t size = at(tile_.rows * width_);
    part_absolute_.assign(size, 0.0);
    part_squares_.assign(size, 0.0);
    Matrix part;
    for (const Segment& s : tile_.segments) {
      view_.products.rows(tile_.dscore, view_.group.k, width_, part, s.block);
      for (std::size_t i = 0; i < size; ++i) {
        part_absolute_[i] += context_.scale * std::fabs(part[i]);
        part_squares_[i] += square(context_.scale * part[i]);
      }
    }
  }

  void bound_row(Index row) {
    double linear = 0;
    double dscore = 0;
    view_.products.each_visible(row, [&](std::size_t entry, Index) {
      linear += errors_.dscore_linear[entry];
      dscore += std::fabs(tile_.dscore[entry]);
    });
    const Index to = view_.query_position(row) * width_;
    for (Index d = 0; d < width_; ++d) {
      bounds_.dq[at(to + d)] = bound_element(row, d, linear, dscore);
    }
  }

  Bound bound_element(Index row, Index d, double linear_sum, double dscore_sum) {
    const auto i = at(row * width_ + d);
    const double scale = context_.scale;
    const double scale2 = scale * scale;
    const double dq = std::fabs(tile_.dq[i]);
    const double multiplicity =
        std::max(view_.facts.keys_multiplicity, view_.facts.values_multiplicity);
    const double count = static_cast<double>(tile_.visible_count[at(row)]);
    const double signed_delta = scale * signed_delta_[i];
    const double absolute = context_.worst ? scale * absolute_[i] : kUnbounded;
    const double products = scale2 * products_[i];
    // One multiplication by scale and one addition a ring step.
    const double fixed =
        (context_.steps + 1) * units_.elementwise.eta + scale * units_.operand.eta * dscore_sum;
    const double linear = (context_.shared_dscore + errors_.lse_linear[at(row)]) * dq +
                          errors_.delta_linear[at(row)] * std::fabs(signed_delta) +
                          scale * linear_sum * view_.facts.k.largest[at(d)] + fixed;
    const double squares = scale2 * square_[i] + errors_.lse_square[at(row)] * dq * dq +
                           errors_.delta_square[at(row)] * square(signed_delta);
    Bound bound;
    const double worst = context_.worst ? scale * worst_[i] + fixed : kUnbounded;
    bound.add(Family{worst, squares, linear}, multiplicity);
    if (errors_.dscore_underflows) bound.add(scale * underflow_[i]);
    bound.add(rounding_of_terms(units_.operand, absolute, products, dq), multiplicity);
    bound.add(
        accumulation(units_.accumulator, count + context_.steps + 2, dq, products, absolute, scale),
        multiplicity);
    bound.add(2 * units_.elementwise.u * dq);
    if (view_.facts.k.inexact()) {
      bound.add(Family{context_.worst ? scale * input_worst_[i] : kUnbounded,
                       scale2 * input_square_[i], scale * input_common_[i] + units_.middle.u * dq});
    }
    if (!part_absolute_.empty()) {
      add_running_sum(bound, units_.query_gradient, context_.steps, part_absolute_[i],
                      part_squares_[i], dq);
    }
    const bool fits =
        context_.fits(count * products * std::max(1.0, 1 / scale2), context_.query_gradient_limit);
    if (!fits || errors_.overflow[at(row)] > 0) return Bound::unbounded();
    return bound.scaled(errors_.recomputed[at(row)]);
  }

  TileView& view_;
  const BoundContext& context_;
  const Units& units_;
  const QueryTile<double>& tile_;
  TileErrors& errors_;
  AttentionBounds& bounds_;
  Index width_;
  // [rows, dim]
  Matrix square_, products_, signed_delta_, absolute_, worst_, underflow_;
  Matrix input_worst_, input_square_, input_common_, part_absolute_, part_squares_;
};

}  // namespace

void bound_queries(TileView& view, AttentionBounds& bounds) { QueryBound(view, bounds).run(); }

}  // namespace shardproof
