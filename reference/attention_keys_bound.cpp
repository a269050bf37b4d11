// Bounds of dv = P^T dout and dk = scale * dX^T q: what each tile adds to the sums over queries,
// and the bounds once all queries of the group have been seen.
#include <algorithm>
#include <cmath>

#include "reference/attention_bound.h"

namespace shardproof {
namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

class KeyTile {
 public:
  KeyTile(TileView& view, KeyCompanions& keys)
      : view_(view),
        context_(view.context),
        tile_(view.tile),
        errors_(view.errors),
        keys_(keys),
        first_(view.errors.first) {}

  void run() {
    add_scalars();
    add_values();
    add_keys();
  }

 private:
  // first_ = function(row, entry) for visible pairs, 0 for hidden ones.
  template <class Function>
  void fill(Function function) {
    view_.products.clear(first_);
    for (Index row = 0; row < tile_.rows; ++row) {
      view_.products.each_visible(
          row, [&](std::size_t entry, Index) { first_[entry] = function(at(row), entry); });
    }
  }

  void add_to(Matrix& sums, const Matrix& operand, Index width) {
    view_.products.add_keys(first_, view_.query_rows(operand, width), width, sums);
  }

  double probability(std::size_t entry) const { return tile_.probability[entry]; }

  // What dropout leaves of P: dv is the product of this, dk that of P itself.
  double factor(std::size_t entry) const { return context_.dropout ? tile_.factor[entry] : 1.0; }
  double weight(std::size_t entry) const { return tile_.weights()[entry]; }

  // P times the slope of the softcap.
  double sloped(std::size_t entry) const {
    return context_.softcap > 0 ? probability(entry) * errors_.derivative[entry]
                                : probability(entry);
  }

  void add_scalars() {
    for (Index row = 0; row < tile_.rows; ++row) {
      if (tile_.visible_count[at(row)] == 0) continue;
      keys_.overflow = std::max(keys_.overflow, errors_.overflow[at(row)]);
      keys_.recomputed = std::max(keys_.recomputed, errors_.recomputed[at(row)]);
      view_.products.each_visible(row, [&](std::size_t entry, Index key) {
        const auto j = at(key);
        keys_.probability[j] += probability(entry);
        keys_.logit_linear[j] +=
            weight(entry) * std::min(errors_.logit_linear[entry], kExponentCap);
        keys_.dscore_linear[j] += errors_.dscore_linear[entry];
        keys_.dscore_absolute[j] += std::fabs(tile_.dscore[entry]);
      });
    }
  }

  void add_values() {
    const Index width = context_.problem.dim_v;
    const OperandFacts& dout = view_.facts.dout;
    KeySums& sums = keys_.dv;
    fill([&](std::size_t row, std::size_t e) {
      return square(weight(e)) *
             (errors_.growth_square[e] + errors_.lse_square[row] + square(errors_.lse_linear[row]));
    });
    add_to(sums.square, dout.squares, width);
    fill([&](std::size_t, std::size_t e) { return square(weight(e)); });
    add_to(sums.products, dout.squares, width);
    if (dout.inexact()) add_to(sums.operand_square, dout.error_square, width);
    fill([&](std::size_t row, std::size_t e) { return weight(e) * errors_.lse_linear[row]; });
    add_to(sums.signed_lse, view_.group.dout, width);
    if (context_.coherent) {
      fill([&](std::size_t row, std::size_t e) {
        return weight(e) * factor(e) * (errors_.coherent_growth[e] + errors_.lse_coherent[row]);
      });
      add_to(sums.coherent, dout.squares, width);
    }
    if (dout.inexact() || context_.worst || context_.ring_keys) add_plain_values(sums, dout, width);
    if (errors_.probability_underflows) {
      fill([&](std::size_t, std::size_t e) {
        return factor(e) * underflow_of(context_.units.probability,
                                        context_.units.probability_operand, probability(e));
      });
      add_to(sums.underflow, dout.absolute, width);
    }
  }

  void add_plain_values(KeySums& sums, const OperandFacts& dout, Index width) {
    fill([&](std::size_t, std::size_t e) { return weight(e); });
    if (dout.inexact()) add_to(sums.operand_common, dout.error_common, width);
    if (context_.ring_keys) add_to(sums.block, view_.group.dout, width);
    if (!context_.worst) return;
    add_to(sums.absolute, dout.absolute, width);
    fill([&](std::size_t, std::size_t e) { return weight(e) * errors_.growth_worst[e]; });
    add_to(sums.worst, dout.absolute, width);
    if (!dout.inexact()) return;
    fill([&](std::size_t, std::size_t e) { return weight(e) * (1 + errors_.growth_worst[e]); });
    add_to(sums.operand_worst, dout.error_worst, width);
  }

  void add_keys() {
    const Index width = context_.problem.dim;
    const OperandFacts& q = view_.facts.q;
    KeySums& sums = keys_.dk;
    fill([&](std::size_t row, std::size_t e) {
      return errors_.dscore_square[e] +
             square(sloped(e)) * (errors_.delta_square[row] + square(errors_.delta_linear[row])) +
             square(tile_.dscore[e]) * (errors_.lse_square[row] + square(errors_.lse_linear[row]));
    });
    add_to(sums.square, q.squares, width);
    fill([&](std::size_t, std::size_t e) { return square(tile_.dscore[e]); });
    add_to(sums.products, q.squares, width);
    if (q.inexact()) add_to(sums.operand_square, q.error_square, width);
    fill([&](std::size_t row, std::size_t e) { return tile_.dscore[e] * errors_.lse_linear[row]; });
    add_to(sums.signed_lse, view_.group.q, width);
    fill([&](std::size_t row, std::size_t e) { return sloped(e) * errors_.delta_linear[row]; });
    add_to(sums.signed_delta, view_.group.q, width);
    if (context_.coherent) add_coherent_keys(sums, q, width);
    if (errors_.dscore_underflows) {
      view_.products.add_keys(errors_.dscore_underflow, view_.query_rows(q.absolute, width), width,
                              sums.underflow);
    }
    if (context_.ring_keys) {
      view_.products.add_keys(tile_.dscore, view_.query_rows(view_.group.q, width), width,
                              sums.block);
    }
    if (q.inexact() || context_.worst) add_plain_keys(sums, q, width);
  }

  // Operand roundings of k_j and v_j are shared by all queries, directly and through the other
  // keys' part in lse and delta: by Cauchy-Schwarz (sum_i P_ij e_i)^2 <= sum_i P_ij sum_i P_ij
  // e_i^2.
  void add_coherent_keys(KeySums& sums, const OperandFacts& q, Index width) {
    fill([&](std::size_t row, std::size_t e) {
      const double slope = context_.softcap > 0 ? errors_.derivative_nearby[e] : 1.0;
      return errors_.dscore_coherent[e] +
             probability(e) * square(slope) *
                 (square(tile_.inner[e]) * errors_.lse_coherent[row] + errors_.delta_coherent[row]);
    });
    add_to(sums.coherent, q.squares, width);
  }

  void add_plain_keys(KeySums& sums, const OperandFacts& q, Index width) {
    fill([&](std::size_t, std::size_t e) { return std::fabs(tile_.dscore[e]); });
    if (q.inexact()) add_to(sums.operand_common, q.error_common, width);
    if (!context_.worst) return;
    add_to(sums.absolute, q.absolute, width);
    view_.products.add_keys(errors_.dscore_worst, view_.query_rows(q.absolute, width), width,
                            sums.worst);
    if (!q.inexact()) return;
    fill([&](std::size_t, std::size_t e) {
      return std::fabs(tile_.dscore[e]) + errors_.dscore_worst[e];
    });
    add_to(sums.operand_worst, q.error_worst, width);
  }

  TileView& view_;
  const BoundContext& context_;
  const QueryTile<double>& tile_;
  TileErrors& errors_;
  KeyCompanions& keys_;
  Matrix& first_;
};

class KeyBound {
 public:
  KeyBound(const BoundContext& context, const GroupFacts& facts, const KeyCompanions& keys)
      : context_(context), units_(context.units), facts_(facts), keys_(keys) {}

  Bound value(Index key, Index d, double count, double want) const {
    const KeySums& sums = keys_.dv;
    const auto i = at(key * context_.problem.dim_v + d);
    const double dv = std::fabs(want);
    const double largest = context_.factor * facts_.dout.largest[at(d)];
    const double absolute = context_.worst ? sums.absolute[i] : kUnbounded;
    Bound bound;
    const double squares = sums.square[i] + coherent(sums, key, i);
    bound.add(Family{context_.worst ? sums.worst[i] : kUnbounded, squares,
                     units_.exp_error * dv + std::fabs(sums.signed_lse[i]) +
                         keys_.logit_linear[at(key)] * largest},
              facts_.queries_multiplicity);
    for (const Rounding* type : {&units_.probability, &units_.probability_operand}) {
      bound.add(rounding_of_terms(*type, absolute, sums.products[i], dv),
                facts_.queries_multiplicity);
    }
    if (context_.dropout) {  // the product with the factor
      bound.add(rounding_of_terms(units_.elementwise, absolute, sums.products[i], dv),
                facts_.queries_multiplicity);
    }
    bound.add(units_.elementwise.eta * (count * largest + 2) +
              units_.operand.eta * count * (context_.factor + largest));
    add_common(bound, sums, i, count, absolute, sums.products[i], dv, 1);
    return bound.scaled(keys_.recomputed);
  }

  Bound key(Index key, Index d, double count, double want) const {
    const KeySums& sums = keys_.dk;
    const auto i = at(key * context_.problem.dim + d);
    const double scale = context_.scale;
    const double dk = std::fabs(want);
    const double absolute = context_.worst ? scale * sums.absolute[i] : kUnbounded;
    const double fixed = (context_.steps + 1) * units_.elementwise.eta +
                         scale * units_.operand.eta * keys_.dscore_absolute[at(key)];
    const double linear = context_.shared_dscore * dk +
                          scale * (std::fabs(sums.signed_delta[i]) + std::fabs(sums.signed_lse[i]) +
                                   keys_.dscore_linear[at(key)] * facts_.q.largest[at(d)]) +
                          fixed;
    Bound bound;
    bound.add(Family{context_.worst ? scale * sums.worst[i] + fixed : kUnbounded,
                     scale * scale * (sums.square[i] + coherent(sums, key, i)), linear},
              facts_.queries_multiplicity);
    bound.add(2 * units_.elementwise.u * dk);
    add_common(bound, sums, i, count + context_.steps + 2, absolute,
               scale * scale * sums.products[i], dk, scale);
    return bound.scaled(keys_.recomputed);
  }

 private:
  double coherent(const KeySums& sums, Index key, std::size_t i) const {
    return context_.coherent ? keys_.probability[at(key)] * sums.coherent[i] : 0.0;
  }

  // What dk and dv have alike; the sums of magnitudes and of squares contain `scale` already.
  void add_common(Bound& bound, const KeySums& sums, std::size_t i, double terms, double absolute,
                  double products, double want, double scale) const {
    const double multiplicity = facts_.queries_multiplicity;
    bound.add(scale * sums.underflow[i]);
    bound.add(rounding_of_terms(units_.operand, absolute, products, want), multiplicity);
    bound.add(accumulation(units_.accumulator, terms, want, products, absolute, scale),
              multiplicity);
    if (!sums.operand_square.empty()) {
      bound.add(Family{context_.worst ? scale * sums.operand_worst[i] : kUnbounded,
                       scale * scale * sums.operand_square[i],
                       scale * sums.operand_common[i] + units_.middle.u * want});
    }
    if (context_.ring_keys) {
      add_running_sum(bound, units_.kv_gradient, context_.steps, scale * sums.block_absolute[i],
                      scale * scale * sums.block_squares[i], want);
    }
    const bool fits = context_.fits(terms * products * std::max(1.0, 1 / (scale * scale)),
                                    context_.kv_gradient_limit);
    if (!fits || keys_.overflow > 0) bound = Bound::unbounded();
  }

  const BoundContext& context_;
  const Units& units_;
  const GroupFacts& facts_;
  const KeyCompanions& keys_;
};

}  // namespace

void add_to_keys(TileView& view, KeyCompanions& keys) { KeyTile(view, keys).run(); }

void bound_keys(const BoundContext& context, const GroupFacts& facts, const KeyGroup<double>& group,
                const BatchMask& mask, const KeyCompanions& keys, AttentionBounds& bounds) {
  const Problem& p = context.problem;
  const KeyBound bound(context, facts, keys);
  for (Index key = 0; key < p.kv; ++key) {
    if (mask.queries_of_key[at(key)] == 0) continue;
    const double count = static_cast<double>(mask.queries_of_key[at(key)] * group.heads);
    const Index position = context.plan.keys.global[at(key)];
    const Index row = (group.batch * p.kv + position) * p.kv_heads + group.kv_head;
    for (Index d = 0; d < p.dim_v; ++d) {
      bounds.dv[at(row * p.dim_v + d)] =
          bound.value(key, d, count, group.dv[at(key * p.dim_v + d)]);
    }
    for (Index d = 0; d < p.dim; ++d) {
      bounds.dk[at(row * p.dim + d)] = bound.key(key, d, count, group.dk[at(key * p.dim + d)]);
    }
  }
}

}  // namespace shardproof
