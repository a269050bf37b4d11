// The values and bounds of an attention layer: errors pass from the projections through attention
// (AttentionInputErrors) to the output projection, and back.
//
// Sums over tokens. An error that all tokens' rows of dq or out share (of a key, a value) reaches
// row i multiplied by something linear in the upstream gradient of token i, which is random and
// independent between tokens; so rows count as independent in dwq, dbq and dwo. An error of query
// i or of dout_i reaches all rows of dk and dv with signs that nothing makes random: those rows
// count as coherent in dwk, dbk, dwv and dbv.
#include <type_traits>

#include "reference/attention.h"
#include "reference/attention_layer.h"
#include "reference/attention_layer_parts.h"
#include "reference/evaluation.h"

namespace shardproof {

namespace {

template <class Real>
class Layer {
 public:
  Layer(const Problem& problem, const Contract& contract, Effort effort)
      : problem_(problem),
        contract_(contract),
        parts_(problem, contract.partitions.summed),
        tokens_(problem.batch * problem.q),
        run_(problem, contract, effort, false) {
    for (const HeadParts::Share& share : parts_.shares) share_heads_.push_back(share.kv_head);
  }

  Expected evaluate() {
    read_inputs();
    q_ = projected(wq_, "bq");
    k_ = projected(wk_, "bk");
    v_ = projected(wv_, "bv");
    dout_ = stored(multiply(dy_, transposed(wo_), run_.rule()), equal_dout_, {});
    attend();
    run_.add_output("y", multiply(out_, wo_, run_.rule(), parts_of_out()), equal_heads_,
                    run_.values("bo"));
    add_dx();
    const Factor<Real> x_across = transposed(x_);
    const ProductRule& rule = run_.rule();
    run_.add_output("dwq", multiply(x_across, dq_, rule), equal_tokens_);
    run_.add_output("dbq", column_sums(dq_, rule), equal_tokens_);
    add_shared_output("dwk", multiply(x_across, dk_, rule), problem_.dim);
    add_shared_output("dbk", column_sums(dk_, rule), problem_.dim);
    add_shared_output("dwv", multiply(x_across, dv_, rule), problem_.dim_v);
    add_shared_output("dbv", column_sums(dv_, rule), problem_.dim_v);
    run_.add_output("dwo", multiply(transposed(out_), dy_, rule), equal_tokens_);
    run_.add_output("dbo", column_sums(dy_, rule), equal_tokens_);
    return run_.take();
  }

 private:
  void read_inputs() {
    const Problem& p = problem_;
    x_ = run_.matrix("x", tokens_, p.features);
    wq_ = run_.matrix("wq", p.features, p.heads * p.dim);
    wk_ = run_.matrix("wk", p.features, p.kv_heads * p.dim);
    wv_ = run_.matrix("wv", p.features, p.kv_heads * p.dim_v);
    wo_ = run_.matrix("wo", p.heads * p.dim_v, p.features);
    dy_ = run_.matrix("dy", tokens_, p.features);
    if (!run_.with_errors()) return;
    equal_tokens_ = std::max(equal_rows(x_), equal_rows(dy_));
    equal_heads_ =
        std::max({equal_columns(wq_), equal_columns(wk_), equal_columns(wv_), equal_rows(wo_)});
    equal_x_ = equal_columns(x_);
    equal_dout_ = std::min(equal_columns(dy_), equal_columns(wo_));
  }

  // A product plus bias, as the subject stores it.
  Factor<Real> stored(const Product<Real>& product, double multiplicity,
                      const std::vector<double>& bias) const {
    std::vector<Real> values = product.values;
    std::vector<Carried> errors(run_.with_errors() ? values.size() : 0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!bias.empty()) values[i] += static_cast<Real>(bias[i % bias.size()]);
      if (errors.empty()) continue;
      errors[i] = run_.stored(product, i, multiplicity, !bias.empty(), values[i]);
    }
    return middle_factor(std::move(values), std::move(errors), product.rows, product.columns,
                         run_.rule().units.middle.u, run_.rule());
  }

  Factor<Real> projected(const Factor<Real>& weight, std::string_view bias) const {
    const double multiplicity = run_.with_errors() ? std::min(equal_x_, equal_rows(weight)) : 1;
    return stored(multiply(x_, weight, run_.rule()), multiplicity, run_.values(bias));
  }

  // What attention returns, with one key/value head for each query head where a key/value head is
  // divided among parts: then the parts' gradients are wanted one by one.
  void attend() {
    Problem inner = problem_;
    inner.kv = inner.q;
    Factor<Real> k = k_;
    Factor<Real> v = v_;
    if (parts_.divided()) {
      const Index group = problem_.heads / problem_.kv_heads;
      std::vector<Index> kv_of_head;
      for (Index head = 0; head < problem_.heads; ++head) kv_of_head.push_back(head / group);
      k = heads_of(k_, kv_of_head, problem_.dim);
      v = heads_of(v_, kv_of_head, problem_.dim_v);
      inner.kv_heads = problem_.heads;
    }
    const AttentionValues<Real> values =
        attention_values<Real>(inner, {q_.values, k.values, v.values, {}, dout_.values, {}});
    AttentionBounds bounds;
    if (run_.with_errors()) bounds = bounds_of(inner, k, v);
    out_ = middle(values.out, bounds.out, problem_.heads * problem_.dim_v, 0);
    dq_ = middle(values.dq, bounds.dq, problem_.heads * problem_.dim, 0);
    const double coherent = 1 / static_cast<double>(std::max<Index>(problem_.batch, 1));
    dk_ = shares_of(values.dk, bounds.dk, inner.kv_heads, problem_.dim, coherent);
    dv_ = shares_of(values.dv, bounds.dv, inner.kv_heads, problem_.dim_v, coherent);
  }

  AttentionBounds bounds_of(const Problem& inner, const Factor<Real>& k,
                            const Factor<Real>& v) const {
    const auto narrow = [](const Factor<Real>& factor) {
      return std::vector<double>(factor.values.begin(), factor.values.end());
    };
    const auto families = [](const Factor<Real>& factor) {
      std::vector<Family> result;
      for (const Carried& error : factor.errors) {
        // The coherent part is that of all elements of a row.
        const double terms = static_cast<double>(factor.columns);
        result.push_back({error.worst, error.square + terms * error.coherent, error.common});
      }
      return result;
    };
    const auto q_values = narrow(q_), k_values = narrow(k), v_values = narrow(v),
               dout_values = narrow(dout_);
    const auto q_errors = families(q_), k_errors = families(k), v_errors = families(v),
               dout_errors = families(dout_);
    // What attention reads and returns is held in precision.middle.
    Contract contract = contract_;
    contract.precision.io = contract.precision.middle;
    AttentionBounds bounds =
        attention_bounds(inner, {q_values, k_values, v_values, {}, dout_values, {}},
                         {q_errors, k_errors, v_errors, dout_errors}, contract, true)
            .bounds;
    open_vague_heads(inner, q_, k, bounds);
    return bounds;
  }

  // A tensor [tokens, columns] of attention, as the subject stores it. `coherent`: the fraction of
  // its variance that the rows share, divided by the number of groups of rows that share it.
  Factor<Real> middle(const std::vector<Real>& values, const std::vector<Bound>& bounds,
                      Index columns, double coherent) const {
    std::vector<Carried> errors;
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      const Family family = bounds[i].as_family();
      Carried error{family.worst, family.square, family.common, coherent * family.square};
      add_middle_rounding(error, run_.rule(), values[i]);
      errors.push_back(error);
    }
    return middle_factor(values, std::move(errors), tokens_, columns, run_.rule().units.middle.u,
                         run_.rule());
  }

  // The gradient of keys or values [tokens, heads * width], summed over the heads of each share.
  Factor<Real> shares_of(const std::vector<Real>& values, const std::vector<Bound>& bounds,
                         Index heads, Index width, double coherent) const {
    if (!parts_.divided()) return middle(values, bounds, heads * width, coherent);
    const auto count = static_cast<Index>(parts_.shares.size());
    std::vector<Real> sums(static_cast<std::size_t>(tokens_ * count * width));
    std::vector<Bound> sum_bounds(bounds.empty() ? 0 : sums.size());
    for (std::size_t at = 0; at < sums.size(); ++at) {
      const auto flat = static_cast<Index>(at);
      const Index token = flat / (count * width);
      const auto& share = parts_.shares[static_cast<std::size_t>(flat / width % count)];
      double magnitude = 0;
      double squares = 0;
      for (Index head : share.heads) {
        const auto from = static_cast<std::size_t>((token * heads + head) * width + flat % width);
        sums[at] += values[from];
        magnitude += std::fabs(static_cast<double>(values[from]));
        squares += square(static_cast<double>(values[from]));
        if (!bounds.empty()) sum_bounds[at].merge(bounds[from]);
      }
      if (bounds.empty()) continue;
      sum_bounds[at].add(accumulation(run_.rule().units.accumulator,
                                      static_cast<double>(share.heads.size()),
                                      static_cast<double>(sums[at]), squares, magnitude));
    }
    return middle(sums, sum_bounds, count * width, coherent);
  }

  std::vector<Index> columns_of(Index head, Index width, Index first) const {
    std::vector<Index> result;
    for (Index d = 0; d < width; ++d) result.push_back(first + head * width + d);
    return result;
  }

  // The columns of out that each part holds.
  Partition parts_of_out() const {
    Partition result(parts_.parts);
    for (Index head = 0; head < problem_.heads; ++head) {
      std::vector<Index>& part = result[parts_.part_of_head[static_cast<std::size_t>(head)]];
      for (Index column : columns_of(head, problem_.dim_v, 0)) part.push_back(column);
    }
    return result;
  }

  // dx = dq wq^T + dk wk^T + dv wv^T, each part by its own heads.
  void add_dx() {
    const Factor<Real> gradients = beside(beside(dq_, dk_), dv_);
    const Factor<Real> weights = beside(beside(wq_, heads_of(wk_, share_heads_, problem_.dim)),
                                        heads_of(wv_, share_heads_, problem_.dim_v));
    Partition parts(parts_.parts);
    for (Index head = 0; head < problem_.heads; ++head) {
      std::vector<Index>& part = parts[parts_.part_of_head[static_cast<std::size_t>(head)]];
      for (Index column : columns_of(head, problem_.dim, 0)) part.push_back(column);
    }
    for (std::size_t i = 0; i < parts_.shares.size(); ++i) {
      std::vector<Index>& part = parts[parts_.shares[i].part];
      const auto share = static_cast<Index>(i);
      for (Index column : columns_of(share, problem_.dim, dq_.columns)) part.push_back(column);
      for (Index column : columns_of(share, problem_.dim_v, dq_.columns + dk_.columns)) {
        part.push_back(column);
      }
    }
    run_.add_output("dx", multiply(gradients, transposed(weights), run_.rule(), parts),
                    equal_heads_);
  }

  // A gradient of wk, bk, wv or bv: the shares of a key/value head are all-reduced.
  void add_shared_output(std::string_view name, const Product<Real>& shares, Index width) {
    if (!parts_.divided()) {
      run_.add_output(name, shares, equal_tokens_);
      return;
    }
    const Index columns = problem_.kv_heads * width;
    const std::size_t size = size_of(shares.rows, columns);
    Product<Real> sum{shares.rows, columns, {}, {}, {}, {}, 1, shares.grid};
    sum.values.resize(size);
    sum.errors.resize(run_.with_errors() ? size : 0);
    sum.part_magnitude.resize(size);
    sum.part_square.resize(size);
    sum.parts = static_cast<double>(parts_.largest_share_count);
    for (std::size_t i = 0; i < shares.values.size(); ++i) {
      const auto row = static_cast<Index>(i) / shares.columns;
      const auto column = static_cast<Index>(i) % shares.columns;
      const Index head = share_heads_[static_cast<std::size_t>(column / width)];
      const auto at = static_cast<std::size_t>(row * columns + head * width + column % width);
      const auto value = static_cast<double>(shares.values[i]);
      sum.values[at] += shares.values[i];
      sum.part_magnitude[at] += std::fabs(value);
      sum.part_square[at] += value * value;
      if (sum.errors.empty()) continue;
      sum.errors[at].worst += shares.errors[i].worst;
      sum.errors[at].square += shares.errors[i].square;
      sum.errors[at].common += shares.errors[i].common;
    }
    run_.add_output(name, sum, equal_tokens_);
  }

  const Problem& problem_;
  const Contract& contract_;
  HeadParts parts_;
  std::vector<Index> share_heads_;  // the key/value head of each share
  Index tokens_;
  Evaluation<Real> run_;
  Factor<Real> x_, wq_, wk_, wv_, wo_, dy_;
  Factor<Real> q_, k_, v_, out_, dout_, dq_, dk_, dv_;
  double equal_tokens_ = 1;
  double equal_heads_ = 1;
  double equal_x_ = 1;
  double equal_dout_ = 1;
};

}  // namespace

Expected evaluate_attention_layer(const Problem& problem, const Contract& contract, Effort effort) {
  if (problem.dtype == DType::kF64) {
    return Layer<long double>(problem, contract, effort).evaluate();
  }
  return Layer<double>(problem, contract, effort).evaluate();
}

}  // namespace shardproof
