// The values and bounds of an attention layer. Two kinds of errors meet in it. Those that attention
// itself makes are what attention_bounds says of exact operands; they are independent between the
// rows of its results, as far as they do not pass through lse or delta. Those of its operands, of
// lse and of delta reach all results coherently: LayerProbe measures them. Worst cases take the
// errors of the operands through attention_bounds instead, stage by stage.
#include "reference/attention.h"
#include "reference/attention_layer.h"
#include "reference/attention_layer_parts.h"
#include "reference/attention_layer_probe.h"
#include "reference/evaluation.h"

namespace shardproof {

namespace {

template <class Real>
class Layer {
 public:
  Layer(const Problem& problem, const Contract& contract, Effort effort)
      : problem_(problem),
        contract_(contract),
        effort_(effort),
        parts_(problem, contract.partitions.summed),
        tokens_(problem.batch * problem.q),
        inner_(problem),
        run_(problem, contract, effort, false) {
    inner_.kv = inner_.q;
    for (const HeadParts::Share& share : parts_.shares) share_heads_.push_back(share.kv_head);
  }

  Expected evaluate() {
    read_inputs();
    q_ = projected(wq_, "bq");
    k_ = projected(wk_, "bk");
    v_ = projected(wv_, "bv");
    dout_ = stored(multiply(dy_, transposed(wo_), run_.rule()), equal_dout_, {});
    attend();
    const ProductRule& rule = run_.rule();
    LayerResponse response;
    if (run_.with_errors()) response = respond(probe());
    const Index features = problem_.features;
    run_.add_output(
        "y",
        with_response(multiply(out_, wo_, rule, parts_.columns(problem_.dim_v)), equal_heads_,
                      {response.square.y, response.common.y, features, 0}),
        equal_heads_, run_.values("bo"));
    run_.add_output(
        "dx",
        with_response(dx(), equal_heads_, {response.square.dx, response.common.dx, features, 0}),
        equal_heads_);
    add_input_gradients(response);
    run_.add_output("dwo",
                    with_response(multiply(transposed(out_), dy_, rule), equal_tokens_,
                                  {response.square.dwo, response.common.dwo, features, 0}),
                    equal_tokens_);
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
    Problem inner = inner_;
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
    AttentionBounds own, all;
    if (run_.with_errors()) {
      own = bounds_of(inner, k, v, false);
      if (effort_ == Effort::kAll) all = bounds_of(inner, k, v, true);
      open_vague_heads(inner, q_, k, own);
      lse_reach_ = lse_reach(own);
      delta_reach_ = delta_reach(inner, dout_, values.out, own, run_.rule().units.saved_out);
    }
    out_ = middle(values.out, own.out, all.out, problem_.heads * problem_.dim_v);
    dq_ = middle(values.dq, own.dq, all.dq, problem_.heads * problem_.dim);
    dk_ = of_shares(values.dk, own.dk, all.dk, problem_.dim);
    dv_ = of_shares(values.dv, own.dv, all.dv, problem_.dim_v);
  }

  AttentionBounds bounds_of(const Problem& inner, const Factor<Real>& k, const Factor<Real>& v,
                            bool of_operands_too) const {
    const auto families = [&](const Factor<Real>& factor) {
      std::vector<Family> result;
      if (!of_operands_too) return result;
      for (const Carried& error : factor.errors) {
        result.push_back({error.worst, row_square(factor, error), error.common});
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
    return attention_bounds(inner, {q_values, k_values, v_values, {}, dout_values, {}},
                            {q_errors, k_errors, v_errors, dout_errors}, contract, of_operands_too)
        .bounds;
  }

  LayerProbe probe() const {
    const bool truncates = contract_.precision.truncating;
    return {inner_,
            movable(q_, truncates),
            movable(k_, truncates),
            movable(v_, truncates),
            movable(dout_, truncates),
            lse_reach_,
            delta_reach_,
            tokens_,
            problem_.features,
            narrow(x_),
            narrow(transposed(beside(beside(wq_, wk_), wv_))),
            narrow(wo_),
            narrow(dy_)};
  }

  // A tensor [tokens, columns] of attention, as the subject stores it. `own`: bounds for exact
  // operands; `all`: with the operands' errors, of which the worst case counts; may be empty.
  Factor<Real> middle(const std::vector<Real>& values, const std::vector<Bound>& own,
                      const std::vector<Bound>& all, Index columns) const {
    std::vector<Carried> errors;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const Family family = own[i].as_family();
      Carried error{all.empty() ? kUnbounded : all[i].worst, family.square, family.common, 0};
      if (family.common == kUnbounded) error = {kUnbounded, kUnbounded, kUnbounded, 0};
      add_middle_rounding(error, run_.rule(), values[i]);
      errors.push_back(error);
    }
    return middle_factor(values, std::move(errors), tokens_, columns, run_.rule().units.middle.u,
                         run_.rule());
  }

  // The gradient of keys or values, one column block a share.
  Factor<Real> of_shares(const std::vector<Real>& values, const std::vector<Bound>& own,
                         const std::vector<Bound>& all, Index width) const {
    if (!parts_.divided()) return middle(values, own, all, problem_.kv_heads * width);
    const Accumulator& type = run_.rule().units.accumulator;
    const auto [sums, own_sums] = parts_.sum_heads(values, own, width, type);
    const auto all_sums = parts_.sum_heads(values, all, width, type).second;
    return middle(sums, own_sums, all_sums, static_cast<Index>(share_heads_.size()) * width);
  }

  // dx = dq wq^T + dk wk^T + dv wv^T, each part by its own heads.
  Product<Real> dx() const {
    const Factor<Real> gradients = beside(beside(dq_, dk_), dv_);
    const Factor<Real> weights = beside(beside(wq_, heads_of(wk_, share_heads_, problem_.dim)),
                                        heads_of(wv_, share_heads_, problem_.dim_v));
    return multiply(gradients, transposed(weights), run_.rule(),
                    parts_.gradient_columns(problem_.dim, problem_.dim_v));
  }

  // Gradients of the three projections' weights and biases.
  void add_input_gradients(const LayerResponse& response) {
    const ProductRule& rule = run_.rule();
    const Factor<Real> x_across = transposed(x_);
    const Index all = wq_.columns + wk_.columns + wv_.columns;
    const auto add = [&](std::string_view weight, std::string_view bias,
                         const Factor<Real>& gradient, Index width, Index first) {
      run_.add_output(
          weight,
          with_response(parts_.reduced(multiply(x_across, gradient, rule), width), equal_tokens_,
                        {response.square.weights, response.common.weights, all, first}),
          equal_tokens_);
      run_.add_output(
          bias,
          with_response(parts_.reduced(column_sums(gradient, rule), width), equal_tokens_,
                        {response.square.biases, response.common.biases, all, first}),
          equal_tokens_);
      run_.note_terms(gradient);
    };
    add("dwq", "dbq", dq_, 0, 0);
    add("dwk", "dbk", dk_, problem_.dim, wq_.columns);
    add("dwv", "dbv", dv_, problem_.dim_v, wq_.columns + wk_.columns);
  }

  const Problem& problem_;
  const Contract& contract_;
  Effort effort_;
  HeadParts parts_;
  std::vector<Index> share_heads_;  // the key/value head of each share
  Index tokens_;
  Problem inner_;  // attention, with as many keys as queries
  Evaluation<Real> run_;
  Factor<Real> x_, wq_, wk_, wv_, wo_, dy_;
  Factor<Real> q_, k_, v_, out_, dout_, dq_, dk_, dv_;
  std::vector<double> lse_reach_, delta_reach_;  // [batch, heads, q]
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
