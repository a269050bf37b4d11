// The outputs and gradients of norm_mlp. dh = dy w2^T depends on no z, so that its errors and z's
// are independent.
#include "reference/norm_mlp_forward.h"

namespace shardproof {
namespace {

template <class Real>
class NormMlp {
 public:
  NormMlp(const Problem& problem, const Contract& contract, Effort effort)
      : problem_(problem),
        hidden_parts_(contract.partitions.summed),
        token_parts_(contract.partitions.queries),
        run_(problem, contract, effort, false),
        at_(problem, contract, run_) {
    if (token_parts_.empty()) token_parts_.resize(1);
    part_of_.resize(at_.rows.size());
    for (std::size_t part = 0; part < token_parts_.size(); ++part) {
      for (Index token : token_parts_[part]) part_of_[static_cast<std::size_t>(token)] = part;
    }
  }

  Expected evaluate() {
    run_.add_output("y", at_.y(hidden_parts_), at_.equal_hidden);
    pass_upstream();
    add_input_gradient();
    const auto tokens = at_.rows.size();
    std::vector<Carried> unit_errors(dz_errors_.size());
    for (std::size_t i = 0; i < unit_errors.size(); ++i) {
      const std::size_t token = i / (unit_errors.size() / tokens);
      const std::size_t k = i % (unit_errors.size() / tokens);
      unit_errors[i] = at_.bound.unit_error(at_.rows[token], at_.row_errors[token], k);
    }
    run_.add_output("dgamma", summed(at_.unit, unit_errors), at_.equal_tokens);
    if (is_layer_norm(problem_)) {
      const std::vector<Real> ones(dz_.size(), Real{1});
      run_.add_output("dbeta", summed(ones, std::vector<Carried>(dz_errors_.size())),
                      at_.equal_tokens);
    }
    add_weight_gradients();
    return run_.take();
  }

 private:
  // dh = dy w2^T and dz = dh w1^T.
  void pass_upstream() {
    const ProductRule& rule = run_.rule();
    const Product<Real> dh = multiply(at_.dy, transposed(at_.w2), rule);
    dh_ = dh.values;
    dh_errors_ = dh.errors;
    for (std::size_t i = 0; i < dh_errors_.size(); ++i) {
      dh_errors_[i].square *= at_.equal_outputs;
      dh_errors_[i].coherent *= at_.equal_outputs;
      Carried own;
      at_.store(own, dh_errors_[i], dh_[i]);
    }
    const Factor<Real> across = transposed(at_.w1);
    const Product<Real> dz = multiply(dh_factor(), across, rule, hidden_parts_);
    dz_ = dz.values;
    if (!rule.with_errors) return;
    dz_errors_ = through(dh_errors_, narrowed(across.values), problem_.hidden, problem_.features);
    dz_errors_.resize(dz_.size());
    own_dz_.resize(dz_.size());
    for (std::size_t i = 0; i < dz_.size(); ++i) {
      const Family sum = reduced_bound(dz, i, 1, false, dz_[i], rule).as_family();
      own_dz_[i] = {sum.worst, sum.square, sum.common, dz.errors[i].coherent};
      dz_errors_[i] = dz_errors_[i] + own_dz_[i];
      at_.store(own_dz_[i], dz_errors_[i], dz_[i]);
    }
  }

  // dh, its errors accounted for elsewhere, should it have any.
  Factor<Real> dh_factor() const {
    const Factor<Real> factor = at_.held(dh_, problem_.hidden, dh_errors_);
    return factor.errors.empty() ? factor : at_.held(dh_, problem_.hidden);
  }

  // Whether a subject has 0 for all of the `count` elements that are `step` apart.
  static bool is_zero(const std::vector<Real>& values, const std::vector<Carried>& errors,
                      std::size_t first, std::size_t step, std::size_t count) {
    bool zero = true;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = first + i * step;
      zero = zero && values[at] == 0 && errors[at].exact();
    }
    return zero;
  }

  void add_input_gradient() {
    const std::size_t features = at_.gamma.size();
    const auto hidden = static_cast<std::size_t>(problem_.hidden);
    std::vector<double> identity(features * features);
    for (std::size_t k = 0; k < features; ++k) identity[k * features + k] = 1;
    const std::vector<double> w1 = narrowed(at_.w1.values);
    const double equal_dz =
        run_.with_errors() ? equal_columns(at_.held(dz_, problem_.features)) : 1;
    std::vector<Real> dx;
    std::vector<Bound> bounds;
    for (std::size_t token = 0; token < at_.rows.size(); ++token) {
      const NormGradient gradient = input_gradient(token, dx);
      if (!run_.with_errors()) continue;
      if (is_zero(dz_, dz_errors_, token * features, 1, features)) {
        bounds.resize(bounds.size() + features);
        continue;
      }
      const NormRow& row = at_.rows[token];
      const std::span all_dh(dh_errors_);
      const std::span own_dz(own_dz_);
      const auto of_dh = at_.bound.of_upstream(row, w1, all_dh.subspan(token * hidden, hidden));
      const auto of_dz =
          at_.bound.of_upstream(row, identity, own_dz.subspan(token * features, features));
      const RowError& row_error = at_.row_errors[token];
      const auto own = at_.bound.gradient(row, row_error, gradient);
      const std::span all_dz(dz_errors_);
      const auto of_errors =
          at_.bound.gradient_of_errors(row, row_error, all_dz.subspan(token * features, features));
      for (std::size_t k = 0; k < features; ++k) {
        Bound bound = own[k];
        bound.add(of_dh[k], at_.equal_hidden);
        bound.add(of_dz[k], equal_dz);
        bound.add(of_errors[k]);
        bound.add(2 * at_.bias * std::fabs(gradient.dx[k]));
        bounds.push_back(bound);
      }
    }
    run_.add_output("dx", dx, bounds);
  }

  // One row of dx is appended.
  NormGradient input_gradient(std::size_t token, std::vector<Real>& dx) const {
    const std::size_t first = token * at_.gamma.size();
    const auto count = static_cast<Real>(at_.gamma.size());
    std::vector<Real> w;
    Real mean = 0;
    Real product = 0;
    for (std::size_t k = 0; k < at_.gamma.size(); ++k) {
      w.push_back(dz_[first + k] * static_cast<Real>(at_.gamma[k]));
      if (is_layer_norm(problem_)) mean += w[k] / count;
      product += w[k] * at_.unit[first + k] / count;
    }
    NormGradient result{narrowed(w), {}, static_cast<double>(mean), static_cast<double>(product)};
    for (std::size_t k = 0; k < w.size(); ++k) {
      dx.push_back(at_.factor[token] * (w[k] - mean - at_.unit[first + k] * product));
      result.dx.push_back(static_cast<double>(dx.back()));
    }
    return result;
  }

  // Sums over the tokens of dz * `other`.
  Product<Real> summed(const std::vector<Real>& other,
                       const std::vector<Carried>& other_errors) const {
    const std::size_t features = at_.gamma.size();
    Product<Real> result{1, problem_.features, std::vector<Real>(features), {}, {}, {}, 1, 0};
    result.parts = static_cast<double>(token_parts_.size());
    for (std::size_t k = 0; k < features; ++k) {
      std::vector<Real> terms;
      Carried error;
      for (std::size_t i = k; i < dz_.size(); i += features) {
        terms.push_back(dz_[i] * other[i]);
        result.values[k] += terms.back();
        if (!run_.with_errors()) continue;
        Carried own = product_error(static_cast<double>(dz_[i]), dz_errors_[i],
                                    static_cast<double>(other[i]), other_errors[i]);
        own.square += static_cast<double>(at_.rows.size()) * own.coherent;
        error = error + own;
      }
      if (run_.with_errors()) add_sum_error(result, terms, error);
    }
    return result;
  }

  // Of the sum of terms that have `error` already.
  void add_sum_error(Product<Real>& result, const std::vector<Real>& terms,
                     const Carried& error) const {
    const Units& units = run_.rule().units;
    std::vector<double> partial(token_parts_.size());
    double sum = 0;
    double squares = 0;
    double absolute = 0;
    for (std::size_t token = 0; token < terms.size(); ++token) {
      const auto term = static_cast<double>(terms[token]);
      partial[part_of_[token]] += term;
      sum += term;
      squares += square(term);
      absolute += std::fabs(term);
    }
    const Family own = accumulation({units.elementwise.u, units.elementwise.eta, false},
                                    static_cast<double>(terms.size()), sum, squares, absolute);
    const Carried all =
        error + Carried{own.worst, own.square, own.common + 2 * at_.bias * std::fabs(sum), 0};
    const bool is_zero = error.exact() && absolute == 0;
    result.errors.push_back(is_zero ? Carried{} : checked(all));
    result.part_magnitude.push_back(0);
    result.part_square.push_back(0);
    for (double each : partial) {
      result.part_magnitude.back() += std::fabs(each);
      result.part_square.back() += square(each);
    }
  }

  // dw1 = z^T dh, both with errors, and dw2 = h^T dy.
  void add_weight_gradients() {
    const ProductRule& rule = run_.rule();
    const Factor<Real> z = at_.held(at_.z, problem_.features, at_.z_errors);
    Product<Real> dw1 = multiply(transposed(z), dh_factor(), rule);
    const auto hidden = static_cast<std::size_t>(problem_.hidden);
    for (std::size_t i = 0; i < dh_errors_.size(); ++i) {
      Carried dh_error = dh_errors_[i];
      dh_error.square += static_cast<double>(problem_.tokens) * dh_error.coherent;
      for (std::size_t k = 0; k < at_.gamma.size(); ++k) {
        const std::size_t from = i / hidden * at_.gamma.size() + k;
        const Carried& z_error = at_.z_errors[from];
        const double value = std::fabs(static_cast<double>(at_.z[from]));
        Carried& error = dw1.errors[k * hidden + i % hidden];
        error.worst += (value + z_error.worst) * dh_error.worst;
        error.square += (square(value) + kLambda * kLambda * z_error.square) * dh_error.square;
        error.common += (value + z_error.common) * dh_error.common;
      }
    }
    for (std::size_t i = 0; i < dw1.errors.size(); ++i) {
      const bool zero = is_zero(dh_, dh_errors_, i % hidden, hidden, at_.rows.size());
      dw1.errors[i] = zero ? Carried{} : checked(dw1.errors[i]);
    }
    run_.add_output("dw1", dw1, at_.equal_tokens);
    run_.add_output("dw2", multiply(transposed(at_.h), at_.dy, rule), at_.equal_tokens);
  }

  const Problem& problem_;
  Partition hidden_parts_;
  Partition token_parts_;
  std::vector<std::size_t> part_of_;  // of each token
  Evaluation<Real> run_;
  NormForward<Real> at_;
  std::vector<Real> dh_, dz_;
  std::vector<Carried> dh_errors_, dz_errors_;
  std::vector<Carried> own_dz_;  // dh's not included
};

}  // namespace

Expected evaluate_norm_mlp(const Problem& problem, const Contract& contract, Effort effort) {
  if (problem.dtype == DType::kF64) {
    return NormMlp<long double>(problem, contract, effort).evaluate();
  }
  return NormMlp<double>(problem, contract, effort).evaluate();
}

}  // namespace shardproof
