// Bounds of out, and the error of delta = rowsum(dout * out) that comes with it. With relative
// errors e^theta of the terms of the softmax, out^ - out = sum P (e^theta - 1) (v - out) / sum P
// e^theta: what all terms share cancels, and Cauchy-Schwarz separates P |e^theta - 1| from
// (v - out)^2. With dropout, v stands for what is left of it: 0 or v times the factor.
#include <algorithm>
#include <cmath>

#include "reference/attention_bound.h"

namespace shardproof {
namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

class OutBound {
 public:
  OutBound(TileView& view, const std::vector<RowSums>& sums, AttentionBounds& bounds)
      : view_(view),
        context_(view.context),
        units_(view.context.units),
        tile_(view.tile),
        errors_(view.errors),
        bounds_(bounds),
        width_(view.context.problem.dim_v),
        sums_(sums) {}

  void run() {
    set_products();
    for (Index row = 0; row < tile_.rows; ++row) {
      if (sums_[at(row)].count > 0) bound_row(row);
    }
  }

 private:
  // Products of weights with something of v, per query.
  void rows(const Matrix& weights, int power, const Matrix& right, Matrix& result) {
    view_.products.dropped_rows(weights, power, right, width_, dropped_, result);
  }

  void set_products() {
    const GroupFacts& facts = view_.facts;
    const Matrix& v = view_.group.v;
    rows(errors_.probability_squared, 2, facts.v.squares, products_);
    rows(errors_.second, 2, facts.v.squares, square_v2_);
    rows(errors_.second, 1, v, square_v_);
    if (context_.worst) {
      rows(tile_.probability, 1, facts.v.absolute, absolute_);
      rows(errors_.first, 2, facts.v.squares, worst_v2_);
      rows(errors_.first, 1, v, worst_v_);
      rows(errors_.first, 1, facts.v.absolute, worst_absolute_);
    }
    if (facts.v.inexact()) set_input_products();
    if (errors_.probability_underflows) set_underflow();
    if (context_.merged) set_merge_products();
  }

  void set_input_products() {
    const OperandFacts& v = view_.facts.v;
    rows(tile_.probability, 1, v.error_common, input_common_);
    rows(errors_.probability_squared, 2, v.error_square, input_square_);
    if (!context_.worst) return;
    rows(tile_.probability, 1, v.error_worst, input_worst_);
    Matrix grown;
    rows(errors_.first, 1, v.error_worst, grown);
    for (std::size_t i = 0; i < grown.size(); ++i) input_worst_[i] += grown[i];
  }

  // Un-normalised probabilities below the smallest normal number of their type.
  void set_underflow() {
    view_.products.clear(errors_.first);
    for (Index row = 0; row < tile_.rows; ++row) {
      const double normaliser = tile_.normaliser[at(row)];
      view_.products.each_visible(row, [&](std::size_t entry, Index) {
        errors_.first[entry] = underflow_of(units_.probability, units_.probability_operand,
                                            tile_.probability[entry] * normaliser) /
                               normaliser;
      });
    }
    rows(errors_.first, 1, view_.facts.v.absolute, underflow_);
  }

  // Ring blocks, each normalised, are merged by their lse: sums over blocks of the parts' magnitude
  // and square, and the error that each part's own weight brings.
  void set_merge_products() {
    const std::size_t size = at(tile_.rows * width_);
    for (Matrix* m : {&part_absolute_, &part_squares_, &part_weight_}) m->assign(size, 0.0);
    Matrix part;
    for (const Segment& s : tile_.segments) {
      view_.products.rows(tile_.weights(), view_.group.v, width_, part, s.block);
      for (Index row = 0; row < tile_.rows; ++row) {
        double weight = 0;
        for (Index key = s.first; key < s.last; ++key) {
          weight += tile_.probability[at(row * view_.products.keys + key)];
        }
        const double log_error =
            2 * units_.elementwise.u * std::fabs(std::log(std::max(weight, 1e-300)));
        for (Index d = 0; d < width_; ++d) {
          const auto i = at(row * width_ + d);
          part_absolute_[i] += std::fabs(part[i]);
          part_squares_[i] += square(part[i]);
          part_weight_[i] += std::fabs(part[i]) * log_error;
        }
      }
    }
  }

  // The part of delta's error that comes with the elements of one row of out.
  struct DeltaSums {
    double worst = 0;
    double square = 0;
    double linear = 0;
    double products = 0;   // dout^2 out^2
    double magnitude = 0;  // |dout| |out|
  };

  void bound_row(Index row) {
    DeltaSums delta;
    const double* dout = view_.query_rows(view_.group.dout, width_) + row * width_;
    const Index to = view_.query_position(row) * width_;
    for (Index d = 0; d < width_; ++d) {
      Bound& bound = bounds_.out[at(to + d)];
      const Family others = bound_out_element(row, d, bound);
      const double out = std::fabs(tile_.out[at(row * width_ + d)]);
      const double g = std::fabs(dout[d]);
      const Rounding& saved = units_.saved_out;
      const double worst = bound.worst_case(units_.inflation);
      delta.worst += g * (worst + saved.half_unit(out + worst));
      delta.square += g * g * others.square;
      delta.linear +=
          g * (others.common + saved.underflow(out, bound.likely_case(units_.inflation)));
      delta.products += square(g * out);
      delta.magnitude += g * out;
      if (view_.facts.dout.inexact()) add_dout_error(row, d, out, worst, delta);
    }
    set_delta_errors(row, delta);
  }

  // dout's own errors multiply out; they also reach dP, hence the factor 2.
  void add_dout_error(Index row, Index d, double out, double out_worst, DeltaSums& delta) {
    const OperandFacts& dout = view_.facts.dout;
    const auto i = at((tile_.first_row + row) * width_ + d);
    delta.worst += dout.error_worst[i] * (out + out_worst);
    delta.square += 2 * dout.error_square[i] * out * out;
    delta.linear += dout.error_common[i] * out;
  }

  // Adds everything to `bound`; returns what does not stem from P alone and so acts on delta
  // element by element.
  Family bound_out_element(Index row, Index d, Bound& bound) {
    const RowSums& sums = sums_[at(row)];
    const auto i = at(row * width_ + d);
    const double out = tile_.out[i];
    const double magnitude = std::fabs(out);
    const double u = units_.elementwise.u;
    const double multiplicity =
        std::max(view_.facts.keys_multiplicity, view_.facts.values_multiplicity);
    const double largest_v = context_.factor * view_.facts.v.largest[at(d)];
    const double absolute = context_.worst ? absolute_[i] : kUnbounded;

    // The sum before it is divided by the normaliser is the largest intermediate.
    const bool fits = 1.01 * tile_.normaliser[at(row)] * largest_v < context_.accumulator_limit;
    if (!fits || errors_.overflow[at(row)] > 0) {
      bound = Bound::unbounded();
      return {kUnbounded, 0, kUnbounded};
    }
    // Errors of P. Out never leaves the range of the visible values whatever they are.
    const double range =
        std::max({view_.facts.v_high[at(d)] - out, out - view_.facts.v_low[at(d)], 0.0});
    bound.add(Family{context_.if_worst(softmax_worst(sums, i, out, range)),
                     centred(square_v2_[i], square_v_[i], sums.weights, out), sums.linear * range},
              multiplicity);
    bound.add(rounding_of_terms(units_.probability, absolute, products_[i], out), multiplicity);
    bound.add(rounding_of_terms(units_.probability_operand, absolute, products_[i], out),
              multiplicity);
    if (context_.dropout) {  // the product with the factor
      bound.add(rounding_of_terms(units_.elementwise, absolute, products_[i], out), multiplicity);
    }

    Family others;
    // Dropout's factor multiplies what underflows of v and of P alike.
    others.common += units_.elementwise.eta * (sums.count * largest_v + 2) +
                     units_.operand.eta * sums.count * (context_.factor + largest_v);
    if (errors_.probability_underflows) others.common += underflow_[i];
    bound.add(others.common);
    const Family operand = rounding_of_terms(units_.operand, absolute, products_[i], out);
    const Family sum =
        accumulation(units_.accumulator, sums.count + 2 * context_.precision.rescales, out,
                     products_[i], absolute);
    bound.add(operand, multiplicity);
    bound.add(sum, multiplicity);
    others.square += operand.square + sum.square;
    others.common += sum.common;
    if (view_.facts.v.inexact()) add_input_error(i, out, bound, others);
    // The row sum and the division by it.
    bound.add(Family{sums.terms * u * magnitude, u * u * sums.terms / 3 * out * out, 0.0});
    bound.add(4 * u * magnitude);
    if (context_.merged) add_merge(sums, i, out, multiplicity, bound, others);
    // e^x - 1 <= x e^x: all of the above is of first order in the error of the merged lse.
    const double shift = 1 + relative_growth(sums.merge);
    bound = bound.scaled(shift);
    return {others.worst, others.square * shift * shift, others.common * shift};
  }

  static double centred(double weighted_v2, double weighted_v, double weights, double out) {
    return std::max(weighted_v2 - 2 * out * weighted_v + out * out * weights, 0.0);
  }

  double softmax_worst(const RowSums& sums, std::size_t i, double out, double range) const {
    if (!context_.worst) return 0;
    const double share = std::max(sums.decayed, 1e-30);
    const double spread = centred(worst_v2_[i], worst_v_[i], sums.growth, out);
    // |v - out| is within |v| + |out|, and within the range.
    const double apart =
        std::min(worst_absolute_[i] + sums.growth * std::fabs(out), sums.growth * range);
    // Where squares of tiny values, or of tiny probabilities, underflow, only these say anything.
    const bool vanished = spread < square(kSquaresVanish);
    const double error = vanished ? apart : std::sqrt(sums.growth) * std::sqrt(spread);
    return std::min(error / share, range);
  }

  void add_input_error(std::size_t i, double out, Bound& bound, Family& others) {
    const double shared = units_.middle.u * std::fabs(out);
    const Family input{context_.worst ? input_worst_[i] : kUnbounded, input_square_[i],
                       input_common_[i] + shared};
    bound.add(input);
    others.square += input.square;
    others.common += input.common;
  }

  // An error in an intermediate lse telescopes: the final normalisation and the roundings of the
  // log-add remain, once a block.
  void add_merge(const RowSums& sums, std::size_t i, double out, double multiplicity, Bound& bound,
                 Family& others) {
    const double blocks = static_cast<double>(context_.plan.keys.blocks());
    bound.add(Family{sums.merge * part_absolute_[i] + part_weight_[i],
                     square(sums.merge) * part_squares_[i] + square(part_weight_[i]),
                     sums.merge * std::fabs(out)},
              multiplicity);
    others.square += square(sums.merge) * part_squares_[i];
    if (!units_.block_out.exists()) return;
    const Family rounding =
        rounding_of_terms(units_.block_out, part_absolute_[i], part_squares_[i], out);
    bound.add(rounding, multiplicity);
    bound.add(blocks * units_.block_out.eta);
    others.square += rounding.square;
    others.common += blocks * units_.block_out.eta;
  }

  void set_delta_errors(Index row, const DeltaSums& elements) {
    const RowSums& sums = sums_[at(row)];
    const double u = units_.elementwise.u;
    const double delta = std::fabs(tile_.delta[at(row)]);
    const double dlse = view_.group.dlse[at(tile_.first_row + row)];
    // Subjects subtract dlse from delta once a row.
    const double subtraction = dlse == 0 ? 0 : u * std::fabs(tile_.delta[at(row)] - dlse);
    const double width = static_cast<double>(width_);
    const double probability =
        units_.probability.u + units_.probability_operand.u + (context_.dropout ? u : 0.0);
    const double multiplicity =
        std::max({view_.facts.keys_multiplicity, view_.facts.values_multiplicity,
                  view_.facts.dp_multiplicity});
    errors_.delta_worst[at(row)] = elements.worst + width * u * elements.magnitude +
                                   width * units_.accumulator.eta + subtraction;
    errors_.delta_square[at(row)] =
        multiplicity *
        (sums.delta_square + sums.delta_coherent + square(probability) * sums.dp_square +
         elements.square + square(units_.saved_out.u) * elements.products +
         u * u * width * (delta * delta / 3 + kWalkEnergy * elements.products));
    errors_.delta_coherent[at(row)] = sums.delta_coherent;
    const double shared =
        view_.facts.v.inexact() || view_.facts.dout.inexact() ? 2 * units_.middle.u : 0.0;
    const double common = probability + 4 * u + units_.operand.u + units_.saved_out.u +
                          (context_.merged ? units_.block_out.u : 0.0) +
                          relative_growth(sums.merge) + shared;
    errors_.delta_linear[at(row)] = common * delta + elements.linear + sums.delta_linear +
                                    2 * width * units_.accumulator.eta + subtraction;
  }

  TileView& view_;
  const BoundContext& context_;
  const Units& units_;
  const QueryTile<double>& tile_;
  TileErrors& errors_;
  AttentionBounds& bounds_;
  Index width_;
  const std::vector<RowSums>& sums_;
  Matrix dropped_;  // for the moment
  // [rows, dim_v]
  Matrix products_, square_v2_, square_v_, absolute_, worst_v2_, worst_v_, worst_absolute_;
  Matrix input_worst_, input_square_, input_common_, underflow_;
  Matrix part_absolute_, part_squares_, part_weight_;
};

}  // namespace

void bound_out(TileView& view, const std::vector<RowSums>& sums, AttentionBounds& bounds) {
  OutBound(view, sums, bounds).run();
}

}  // namespace shardproof
