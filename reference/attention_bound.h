// The error bound of attention, tile by tile, in step with attention_pass. Errors of scores, of
// exponents and of row quantities are kept apart, because a shift common to a row cancels in the
// softmax. A matrix of worst-case sums that is not computed is represented by infinity.
#pragma once

#include <vector>

#include "reference/attention_tile.h"

namespace shardproof {

using Matrix = std::vector<double>;

// What stays the same over the whole evaluation.
struct BoundContext {
  const Problem& problem;
  const AttentionPlan& plan;
  const AttentionInputErrors& errors;
  const Precision& precision;
  Units units;
  bool worst = true;          // whether worst-case sums are computed
  bool coherent = false;      // whether operands carry roundings that whole rows or columns share
  bool merged = false;        // ring blocks are merged, and there is more than one
  bool ring_keys = false;     // dk and dv pass through a narrower buffer, block by block
  bool ring_queries = false;  // likewise dq
  double scale = 1;
  double softcap = 0;
  bool dropout = false;
  double factor = 1;  // of the weights that dropout keeps
  double sinks = 0;   // further terms of every row sum: 1 or 0
  double steps = 1;   // of the ring
  OutputType lse_type;
  double shared_dscore = 0;  // relative error that all dX may share
  // Where intermediates overflow.
  double accumulator_limit, score_limit, dscore_limit, query_gradient_limit, kv_gradient_limit;

  BoundContext(const Problem& problem, const AttentionPlan& plan,
               const AttentionInputErrors& errors, const Contract& contract, bool need_worst);

  // Whether sums stay in range whose square is at most `reach`, in the accumulator and in a type
  // with that limit. By Cauchy-Schwarz reach = terms * sum of squares holds for every partial sum.
  bool fits(double reach, double limit) const {
    return 1.1 * reach < square(std::min(accumulator_limit, limit));
  }

  double if_worst(double value) const { return worst ? value : kUnbounded; }
};

// What underflow costs a P or a dS that is first stored and then enters a product.
inline double underflow_of(const Rounding& stored, const Rounding& entering, double magnitude,
                           double error = 0) {
  return stored.underflow(magnitude, error) + entering.underflow(magnitude, error);
}

// An operand [rows, width] with what the bounds need of it.
struct OperandFacts {
  Matrix absolute;
  Matrix squares;
  Matrix largest;   // [width], of the magnitudes
  Matrix row_sums;  // [rows], of the magnitudes
  // Errors that it already carries; empty when it is exact.
  Matrix error_worst, error_square, error_common;
  // Of keys and values only: the above, transposed.
  Matrix absolute_transposed, squares_transposed;
  Matrix error_worst_transposed, error_square_transposed, error_common_transposed;

  bool inexact() const { return !error_worst.empty(); }
};

// One key/value head of one batch entry.
struct GroupFacts {
  OperandFacts q, dout, k, v;
  Matrix v_low;  // [dim_v], over the values that may enter out
  Matrix v_high;
  double keys_multiplicity = 1;     // of equal rows of k
  double values_multiplicity = 1;   // of equal rows of v
  double queries_multiplicity = 1;  // of equal rows of q or of dout
  double logit_multiplicity = 1;    // of equal columns of both q and k
  double dp_multiplicity = 1;       // of equal columns of both dout and v

  void set(const BoundContext& context, const KeyGroup<double>& group, const BatchMask& mask);
};

// Errors of the entries of one tile, [rows, keys], and of its rows.
struct TileErrors {
  // Of the logit z: worst case, quadratic, linear, and quadratic but shared along rows or columns.
  Matrix logit_worst, logit_square, logit_linear, logit_coherent;
  Matrix scaled_worst, scaled_square, scaled_linear;  // of x, before the softcap
  Matrix derivative;                                  // 1 - tanh^2
  Matrix derivative_nearby;                           // its largest value within the error of x
  Matrix probability_squared;
  Matrix forward_growth;   // squared relative error of P against its row
  Matrix coherent_growth;  // the shared part of it
  Matrix dp_worst, dp_square, dp_linear, dp_coherent;
  Matrix dscore_worst, dscore_square, dscore_linear, dscore_coherent, dscore_underflow;
  Matrix growth_worst, growth_square;  // of the recomputed P
  Matrix first, second;                // for the moment
  // Of rows.
  Matrix lse_worst, lse_linear, lse_square, lse_coherent;
  Matrix delta_worst, delta_linear, delta_square, delta_coherent;
  Matrix recomputed;  // P recomputed from lse is at most so many times P
  Matrix overflow;    // infinite where an intermediate may leave its type's range, else 0
  bool probability_underflows = false;
  bool dscore_underflows = false;

  explicit TileErrors(const Problem& problem);
};

// Sums over the queries that contribute to one gradient of keys or values, [keys, width].
struct KeySums {
  Matrix worst;         // worst-case error of the weights times |operand|
  Matrix absolute;      // |weight| |operand|
  Matrix square;        // squared error of the weights times operand^2
  Matrix products;      // weight^2 operand^2
  Matrix coherent;      // like square, with Cauchy-Schwarz weights
  Matrix signed_lse;    // if all rows' lse erred alike
  Matrix signed_delta;  // if all rows' delta erred alike
  Matrix underflow;
  Matrix operand_worst, operand_square, operand_common;  // errors that the operand carries
  Matrix block;                                          // this query block's part of the gradient
  Matrix block_absolute;  // over blocks: sum of |part|, sum of part^2
  Matrix block_squares;

  // Sizes and clears what the context needs.
  void reset(const BoundContext& context, Index width, bool operand_inexact);
  void end_block();
};

struct KeyCompanions {
  KeySums dk;
  KeySums dv;
  // [keys], sums over the queries
  Matrix probability;      // of P
  Matrix logit_linear;     // of P times the logit's linear error
  Matrix dscore_linear;    // of dX's linear error
  Matrix dscore_absolute;  // of |dX|
  double recomputed = 1;   // largest of the queries
  double overflow = 0;     // infinite when some query's intermediates may overflow
};

// Sums over the rows of one query head, for the gradient of its sink.
struct SinkSums {
  double terms = 0;
  double worst = 0;
  double square = 0;
  double linear = 0;
  double absolute = 0;        // of |dS|
  double squares = 0;         // of dS^2
  double probability = 0;     // of P
  double lse_coherent = 0;    // of |dS| times what rows share of the errors of lse, squared
  double delta_coherent = 0;  // of P times what they share of those of delta, squared
  double recomputed = 1;      // largest of the rows
  double overflow = 0;        // infinite when some row's intermediates may overflow
};

// Sums over the visible keys of one query and its sink, which is a key without errors and with the
// value 0.
struct RowSums {
  double count = 0;         // of visible keys
  double terms = 0;         // of the row sum: with the sink
  double growth = 0;        // P (e^D - 1), D the worst error of the exponent
  double decayed = 0;       // P e^-D
  double largest = 0;       // D
  double square = 0;        // P^2 times the squared growth
  double coherent = 0;      // P times the coherent one
  double weights = 0;       // both together: of `second`
  double linear = 0;        // P times the linear error
  double delta_square = 0;  // what errors of P do to delta, in three ways
  double delta_coherent = 0;
  double delta_linear = 0;
  double dp_square = 0;  // P^2 dP^2
  double merge = 0;      // relative error of merging ring blocks
};

// Products of a tile's [rows, keys] matrices, over its segments only.
struct TileProducts {
  const QueryTile<double>& tile;
  Index keys;

  // left [rows, width] times right [width, keys]
  void scores(const double* left, Index width, const Matrix& right, Matrix& result) const;
  // weights [rows, keys] times right [keys, width]; block < 0: all key blocks
  void rows(const Matrix& weights, const Matrix& right, Index width, Matrix& result,
            Index block = -1) const;
  // result [keys, width] += transposed weights times right [rows, width]
  void add_keys(const Matrix& weights, const double* right, Index width, Matrix& result) const;

  // weights [rows, keys], whose entries dropout multiplies by factor^power, times right.
  void dropped_rows(const Matrix& weights, int power, const Matrix& right, Index width,
                    Matrix& scratch, Matrix& result) const;

  // function(entry) for every visible pair of `row`; entry indexes [rows, keys]
  template <class Function>
  void each_visible(Index row, Function function) const {
    for (const Segment& s : tile.segments) {
      for (Index key = s.first; key < s.last; ++key) {
        const Index entry = row * keys + key;
        if (tile.visible[entry]) function(static_cast<std::size_t>(entry), key);
      }
    }
  }

  // Sets the entries of the tile's segments to zero, so that hidden pairs stay zero.
  void clear(Matrix& matrix) const;
};

// One tile with all that bounds it, for the functions below.
struct TileView {
  const BoundContext& context;
  const GroupFacts& facts;
  const KeyGroup<double>& group;
  const QueryTile<double>& tile;
  TileErrors& errors;
  TileProducts products;

  Index head() const { return group.kv_head * group.heads + tile.head; }
  Index query(Index row) const {
    return context.plan.queries.global[static_cast<std::size_t>(tile.first + row)];
  }
  // Rows of out and dq in their tensors, which begin with [batch, q, heads], and of lse.
  Index query_position(Index row) const {
    return (group.batch * context.problem.q + query(row)) * context.problem.heads + head();
  }
  Index lse_position(Index row) const {
    return (group.batch * context.problem.heads + head()) * context.problem.q + query(row);
  }
  // Row 0 of the tile in an operand [heads * queries, width].
  const double* query_rows(const Matrix& operand, Index width) const {
    return operand.data() + tile.first_row * width;
  }
};

// Errors of the logits (numerics 4.3, "Score error").
void set_logit_errors(TileView& view);

// The sums over the visible keys of each row, and the bound and error of lse.
std::vector<RowSums> bound_lse(TileView& view, AttentionBounds& bounds);

// Bounds of out, and the error of delta = rowsum(dout * out).
void bound_out(TileView& view, const std::vector<RowSums>& sums, AttentionBounds& bounds);

// Errors of dS and dX; adds dbias's companions.
void set_dscore_errors(TileView& view, AttentionBounds& bounds);

// dsink: what the tile adds to the sums of its head, and the bound once every row has been seen.
void add_to_sink(const TileView& view, SinkSums& sums);
Bound bound_sink(const BoundContext& context, const SinkSums& sums, double want);

// Bounds of dq.
void bound_queries(TileView& view, AttentionBounds& bounds);

// dk and dv: what the tile adds to the companions, and the bounds once the group is complete.
void add_to_keys(TileView& view, KeyCompanions& keys);
void bound_keys(const BoundContext& context, const GroupFacts& facts, const KeyGroup<double>& group,
                const BatchMask& mask, const KeyCompanions& keys, AttentionBounds& bounds);

// The visitor that attention_pass drives.
class AttentionBounder {
 public:
  AttentionBounder(const BoundContext& context, AttentionBounds& bounds);

  void begin_group(const KeyGroup<double>& group, const BatchMask& mask);
  void visit_tile(const KeyGroup<double>& group, const QueryTile<double>& tile);
  void end_query_block(const KeyGroup<double>& group);
  void end_group(const KeyGroup<double>& group, const BatchMask& mask);

  // Once all groups are done.
  void finish(const AttentionValues<double>& values);

 private:
  const BoundContext& context_;
  AttentionBounds& bounds_;
  GroupFacts facts_;
  KeyCompanions keys_;
  TileErrors errors_;
  std::vector<SinkSums> sinks_;  // [heads]; empty without sinks
};

}  // namespace shardproof
