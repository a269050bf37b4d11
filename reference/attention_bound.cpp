#include "reference/attention_bound.h"

#include <algorithm>
#include <cmath>

#include "harness/model/require.h"
#include "reference/attention_pass.h"
#include "reference/attention_product.h"
#include "reference/attention_rotary.h"

namespace shardproof {
namespace {

// Above this many (query, key) pairs a head, the worst case is left out unless asked for. It would
// tighten T2 only for sums that are made by fewer than kLambda^2 terms.
constexpr Index kManyPairs = Index{1} << 18;

std::size_t size_of(Index rows, Index columns) { return static_cast<std::size_t>(rows * columns); }

std::size_t bound_count(Index a, Index b, Index c, Index d) {
  return static_cast<std::size_t>(a * b * c * d);
}

}  // namespace

BoundContext::BoundContext(const Problem& p, const AttentionPlan& order,
                           const AttentionInputErrors& input_errors, const Contract& contract,
                           bool need_worst)
    : problem(p),
      plan(order),
      errors(input_errors),
      precision(contract.precision),
      units(contract.precision),
      worst(need_worst || p.q * p.kv <= kManyPairs),
      coherent(units.operand.exists() || input_errors.any()),
      merged(contract.precision.merge_blocks && order.keys.blocks() + (p.sink ? 1 : 0) > 1),
      // The last rounding is the output's own where the types are the same, unless it is turned
      // back in between.
      ring_keys(units.kv_gradient.exists() &&
                (order.queries.blocks() > 1 || p.rotary > 0 ||
                 narrowing(precision.io, precision.kv_gradient).exists())),
      ring_queries(units.query_gradient.exists() &&
                   (order.keys.blocks() > 1 || p.rotary > 0 ||
                    narrowing(precision.io, precision.query_gradient).exists())),
      scale(effective_scale(p)),
      softcap(effective_softcap(p)),
      dropout(p.dropout > 0),
      factor(p.dropout > 0 ? dropout_factor(p) : 1),
      sinks(p.sink ? 1 : 0),
      steps(static_cast<double>(std::max<Index>({order.keys.blocks(), order.queries.blocks(), 1}))),
      lse_type(contract.precision.lse, contract.precision),
      shared_dscore(units.exp_error + units.score_gradient.u + units.score_gradient_operand.u +
                    4 * units.elementwise.u + units.operand.u),
      accumulator_limit(format(contract.precision.accumulator).overflow_threshold),
      score_limit(format(contract.precision.score).overflow_threshold),
      dscore_limit(format(contract.precision.score_gradient).overflow_threshold),
      query_gradient_limit(format(contract.precision.query_gradient).overflow_threshold),
      kv_gradient_limit(format(contract.precision.kv_gradient).overflow_threshold) {}

TileErrors::TileErrors(const Problem& p) {
  for (Matrix* matrix : {&logit_worst,
                         &logit_square,
                         &logit_linear,
                         &logit_coherent,
                         &scaled_worst,
                         &scaled_square,
                         &scaled_linear,
                         &derivative,
                         &derivative_nearby,
                         &probability_squared,
                         &forward_growth,
                         &coherent_growth,
                         &dp_worst,
                         &dp_square,
                         &dp_linear,
                         &dp_coherent,
                         &dscore_worst,
                         &dscore_square,
                         &dscore_linear,
                         &dscore_coherent,
                         &dscore_underflow,
                         &growth_worst,
                         &growth_square,
                         &first,
                         &second}) {
    matrix->resize(size_of(tile_rows(p), p.kv));
  }
  for (Matrix* row : {&lse_worst, &lse_linear, &lse_square, &lse_coherent, &delta_worst,
                      &delta_linear, &delta_square, &delta_coherent, &recomputed, &overflow}) {
    row->resize(size_of(tile_rows(p), 1));
  }
}

void KeySums::reset(const BoundContext& context, Index width, bool operand_inexact) {
  const std::size_t size = size_of(context.problem.kv, width);
  for (Matrix* sums : {&square, &products, &signed_lse, &signed_delta, &underflow}) {
    sums->assign(size, 0.0);
  }
  for (Matrix* sums : {&worst, &absolute}) sums->assign(context.worst ? size : 0, 0.0);
  coherent.assign(context.coherent ? size : 0, 0.0);
  for (Matrix* sums : {&operand_worst, &operand_square, &operand_common}) {
    sums->assign(operand_inexact ? size : 0, 0.0);
  }
  for (Matrix* sums : {&block, &block_absolute, &block_squares}) {
    sums->assign(context.ring_keys ? size : 0, 0.0);
  }
}

void KeySums::end_block() {
  for (std::size_t i = 0; i < block.size(); ++i) {
    block_absolute[i] += std::fabs(block[i]);
    block_squares[i] += block[i] * block[i];
    block[i] = 0;
  }
}

void TileProducts::scores(const double* left, Index width, const Matrix& right,
                          Matrix& result) const {
  clear(result);
  for (const Segment& s : tile.segments) {
    add_product(tile.rows, width, s.count(), Strided<double>{left, width, 1},
                right.data() + s.first, keys, result.data() + s.first, keys);
  }
}

void TileProducts::rows(const Matrix& weights, const Matrix& right, Index width, Matrix& result,
                        Index block) const {
  result.assign(size_of(tile.rows, width), 0.0);
  for (const Segment& s : tile.segments) {
    if (block >= 0 && s.block != block) continue;
    add_product(tile.rows, s.count(), width, Strided<double>{weights.data() + s.first, keys, 1},
                right.data() + s.first * width, width, result.data(), width);
  }
}

void TileProducts::dropped_rows(const Matrix& weights, int power, const Matrix& right, Index width,
                                Matrix& scratch, Matrix& result) const {
  if (tile.factor.empty()) return rows(weights, right, width, result);
  scratch.resize(weights.size());
  for (Index row = 0; row < tile.rows; ++row) {
    for (const Segment& s : tile.segments) {
      for (Index i = row * keys + s.first; i < row * keys + s.last; ++i) {
        const double factor = tile.factor[static_cast<std::size_t>(i)];
        const double weight = weights[static_cast<std::size_t>(i)];
        scratch[static_cast<std::size_t>(i)] = weight * (power == 2 ? factor * factor : factor);
      }
    }
  }
  rows(scratch, right, width, result);
}

void TileProducts::add_keys(const Matrix& weights, const double* right, Index width,
                            Matrix& result) const {
  for (const Segment& s : tile.segments) {
    add_product(s.count(), tile.rows, width, Strided<double>{weights.data() + s.first, 1, keys},
                right, width, result.data() + s.first * width, width);
  }
}

void TileProducts::clear(Matrix& matrix) const {
  for (Index row = 0; row < tile.rows; ++row) {
    for (const Segment& s : tile.segments) {
      std::fill_n(matrix.begin() + row * keys + s.first, s.count(), 0.0);
    }
  }
}

AttentionBounder::AttentionBounder(const BoundContext& context, AttentionBounds& bounds)
    : context_(context), bounds_(bounds), errors_(context.problem) {
  const Problem& p = context.problem;
  bounds_.out.resize(bound_count(p.batch, p.q, p.heads, p.dim_v));
  bounds_.lse.resize(bound_count(p.batch, p.heads, p.q, 1));
  bounds_.dq.resize(bound_count(p.batch, p.q, p.heads, p.dim));
  bounds_.dk.resize(bound_count(p.batch, p.kv, p.kv_heads, p.dim));
  bounds_.dv.resize(bound_count(p.batch, p.kv, p.kv_heads, p.dim_v));
  if (p.bias == ScoreBias::kDense) bounds_.dbias.resize(bound_count(p.heads, p.q, p.kv, 1));
  if (p.sink) sinks_.resize(bound_count(p.heads, 1, 1, 1));
}

void AttentionBounder::begin_group(const KeyGroup<double>& group, const BatchMask& mask) {
  const Problem& p = context_.problem;
  facts_.set(context_, group, mask);
  keys_.dk.reset(context_, p.dim, facts_.q.inexact());
  keys_.dv.reset(context_, p.dim_v, facts_.dout.inexact());
  for (Matrix* sums :
       {&keys_.probability, &keys_.logit_linear, &keys_.dscore_linear, &keys_.dscore_absolute}) {
    sums->assign(size_of(p.kv, 1), 0.0);
  }
  keys_.recomputed = 1;
  keys_.overflow = 0;
}

void AttentionBounder::visit_tile(const KeyGroup<double>& group, const QueryTile<double>& tile) {
  TileView view{context_, facts_, group, tile, errors_, {tile, context_.problem.kv}};
  set_logit_errors(view);
  const std::vector<RowSums> sums = bound_lse(view, bounds_);
  bound_out(view, sums, bounds_);
  set_dscore_errors(view, bounds_);
  if (!sinks_.empty()) add_to_sink(view, sinks_[static_cast<std::size_t>(view.head())]);
  bound_queries(view, bounds_);
  add_to_keys(view, keys_);
}

void AttentionBounder::end_query_block(const KeyGroup<double>&) {
  keys_.dk.end_block();
  keys_.dv.end_block();
}

void AttentionBounder::end_group(const KeyGroup<double>& group, const BatchMask& mask) {
  bound_keys(context_, facts_, group, mask, keys_, bounds_);
}

void AttentionBounder::finish(const AttentionValues<double>& values) {
  for (std::size_t head = 0; head < sinks_.size(); ++head) {
    bounds_.dsink.push_back(bound_sink(context_, sinks_[head], values.dsink[head]));
  }
}

AttentionResult attention_bounds(const Problem& problem, const AttentionInputs<double>& inputs,
                                 const AttentionInputErrors& errors, const Contract& contract,
                                 bool need_worst) {
  require(problem.rotary == 0 || !errors.any(), "what rotary positions turn is exact");
  const AttentionPlan plan(problem, contract.partitions);
  const TurnedInputs<double> turned(problem, inputs);
  const TurnedErrors turning(problem, inputs, contract.precision);
  const AttentionInputErrors turned_errors{turning.q, turning.k, {}, {}};
  const BoundContext context(problem, plan, problem.rotary == 0 ? errors : turned_errors, contract,
                             need_worst);
  AttentionResult result;
  AttentionBounder bounder(context, result.bounds);
  result.values = attention_pass(problem, plan, turned.view(), bounder);
  bounder.finish(result.values);
  turn_back(problem, contract.precision, result.values, result.bounds);
  turn_back(problem, result.values);
  return result;
}

}  // namespace shardproof
