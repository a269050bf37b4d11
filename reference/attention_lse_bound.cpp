// The relative errors of P and what they do to lse. The exponential is not linearised.
#include <algorithm>
#include <cmath>

#include "reference/attention_bound.h"

namespace shardproof {
namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

// A lower bound of exp(-x) for x >= 0, cheap where x is small.
double decay(double x) { return x < 0x1p-10 ? 1 - x : std::exp(-x); }

class LseBound {
 public:
  LseBound(TileView& view, AttentionBounds& bounds)
      : view_(view),
        context_(view.context),
        units_(view.context.units),
        tile_(view.tile),
        errors_(view.errors),
        bounds_(bounds),
        sums_(static_cast<std::size_t>(view.tile.rows)),
        smallest_normal_(std::max(units_.probability.minimum_normal,
                                  units_.probability_operand.minimum_normal)) {}

  std::vector<RowSums> run() {
    errors_.probability_underflows = false;
    // Hidden pairs inside the segments must count nothing.
    for (Matrix* matrix : {&errors_.probability_squared, &errors_.first, &errors_.second}) {
      view_.products.clear(*matrix);
    }
    for (Index row = 0; row < tile_.rows; ++row) {
      set_row(row);
      if (sums_[at(row)].terms > 0) bound_row(row);
    }
    return std::move(sums_);
  }

 private:
  void set_row(Index row) {
    RowSums& sums = sums_[at(row)];
    sums.count = static_cast<double>(tile_.visible_count[at(row)]);
    sums.terms = sums.count + context_.sinks;
    if (sums.terms == 0) return;
    const double u = units_.elementwise.u;
    const double library = units_.exp_error;
    const double maximum = tile_.maximum[at(row)];
    // Each rescaling multiplies by one more exp. Only the roundings that hit a given term add up
    // quadratically, and a term's share of the sum shrinks geometrically with every new maximum.
    const double rescales = context_.precision.rescales;
    const double effective = std::min(rescales, 2 + 2 * std::log2(1 + rescales));
    const double step = library + 2 * u;
    const double fixed_worst = u * std::fabs(maximum) + library + rescales * step;
    const double fixed_square = square(u * maximum) + square(library) + effective * square(step);
    view_.products.each_visible(row, [&](std::size_t entry, Index) {
      const double logit = tile_.logit[entry];
      const double rounding = u * std::fabs(logit);
      const double difference = 2 * u * std::fabs(logit - maximum);
      const double worst = errors_.logit_worst[entry] + rounding + difference + fixed_worst;
      const double squares = errors_.logit_square[entry] + square(rounding) + square(difference) +
                             fixed_square + errors_.logit_coherent[entry];
      add_entry(sums, row, entry, worst, squares);
    });
    if (context_.sinks > 0) add_sink(sums, row, fixed_worst, fixed_square);
  }

  // The sink's logit is exact and its dP is 0: its exponential's errors remain.
  void add_sink(RowSums& sums, Index row, double fixed_worst, double fixed_square) {
    const double u = units_.elementwise.u;
    const double logit = view_.group.sink[at(tile_.head)];
    const double rounding = u * std::fabs(logit);
    const double difference = 2 * u * std::fabs(logit - tile_.maximum[at(row)]);
    const double worst = rounding + difference + fixed_worst;
    const double p = tile_.sink_probability[at(row)];
    const double squares =
        p * p * relative_growth_square(square(rounding) + square(difference) + fixed_square);
    sums.growth += p * relative_growth(worst);
    sums.decayed += p * decay(worst);
    sums.largest = std::max(sums.largest, worst);
    sums.square += squares;
    sums.weights += squares;
    sums.delta_square += squares * square(tile_.delta[at(row)]);
  }

  void add_entry(RowSums& sums, Index row, std::size_t entry, double worst, double squares) {
    const double p = tile_.probability[entry];
    const double inner = tile_.dp[entry] - tile_.delta[at(row)];
    const double growth = relative_growth(worst);
    const double growth_square = relative_growth_square(squares);
    const double shared =
        context_.coherent ? relative_growth_square(errors_.logit_coherent[entry]) : 0.0;
    const double linear = std::min(errors_.logit_linear[entry], kExponentCap);
    errors_.probability_squared[entry] = p * p;
    errors_.forward_growth[entry] = growth_square;
    errors_.coherent_growth[entry] = shared;
    errors_.first[entry] = p * growth;
    errors_.second[entry] = p * p * growth_square + p * shared;
    sums.growth += p * growth;
    sums.decayed += p * decay(worst);
    sums.largest = std::max(sums.largest, worst);
    sums.square += p * p * growth_square;
    sums.coherent += p * shared;
    sums.weights += errors_.second[entry];
    sums.linear += p * linear;
    sums.delta_square += p * p * growth_square * inner * inner;
    sums.delta_coherent += p * (shared * inner * inner);
    sums.delta_linear += p * linear * std::fabs(inner);
    sums.dp_square += square(p * tile_.dp[entry]);
    const double unnormalised = p * tile_.normaliser[at(row)];
    errors_.probability_underflows =
        errors_.probability_underflows || std::min(p, unnormalised) < smallest_normal_;
  }

  void bound_row(Index row) {
    RowSums& sums = sums_[at(row)];
    const double u = units_.elementwise.u;
    const double lse = std::fabs(tile_.lse[at(row)]);
    if (context_.merged) {
      sums.merge =
          (static_cast<double>(context_.plan.keys.blocks()) + context_.sinks) *
          (units_.lse.u * (lse + std::log(static_cast<double>(context_.problem.kv) + 2.0) + 1) +
           units_.exp_error + units_.log_error + 4 * u);
    }
    // No factor beyond the largest; below, log(1 + sum P (e^D - 1)), to which the error downwards
    // is inferior by Jensen's inequality.
    const double worst = sums.largest > kExponentCap ? sums.largest : std::log1p(sums.growth);
    Bound bound;
    bound.add(Family{context_.if_worst(worst), sums.square + sums.coherent, sums.linear},
              view_.facts.keys_multiplicity);
    bound.add(Family{u * sums.terms, u * u * sums.terms / 3, 0.0});
    bound.add(u * std::fabs(tile_.maximum[at(row)]) + units_.lse.u * lse +
              units_.log_error * std::fabs(std::log(tile_.normaliser[at(row)])) + units_.exp_error +
              2 * u + sums.merge);
    if (errors_.overflow[at(row)] > 0) bound = Bound::unbounded();
    const Thresholds thresholds = finish(bound, lse, context_.lse_type);
    errors_.lse_worst[at(row)] = thresholds.worst;
    // e^x - 1 <= x e^x: all that follows is of first order in the error of lse, times this.
    const double shift = context_.worst ? thresholds.worst : thresholds.likely;
    errors_.recomputed[at(row)] = 1 + relative_growth(shift);
    errors_.lse_linear[at(row)] = bound.linear;
    errors_.lse_square[at(row)] = bound.square;
    errors_.lse_coherent[at(row)] = sums.coherent;
    bounds_.lse[at(view_.lse_position(row))] = bound;
  }

  TileView& view_;
  const BoundContext& context_;
  const Units& units_;
  const QueryTile<double>& tile_;
  TileErrors& errors_;
  AttentionBounds& bounds_;
  std::vector<RowSums> sums_;
  double smallest_normal_;  // below it P underflows on its way into a product
};

}  // namespace

std::vector<RowSums> bound_lse(TileView& view, AttentionBounds& bounds) {
  return LseBound(view, bounds).run();
}

}  // namespace shardproof
