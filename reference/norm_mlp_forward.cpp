#include "reference/norm_mlp_forward.h"

namespace shardproof {

template <class Real>
NormForward<Real>::NormForward(const Problem& given, const Contract& contract,
                               const Evaluation<Real>& evaluation)
    : problem(given), run(evaluation), bound(given, contract) {
  bias = run.rule().units.middle.u + run.rule().units.middle_operand.u;
  read_inputs();
  for (std::size_t token = 0; token < rows.size(); ++token) normalize(token);
  if (run.with_errors()) add_row_errors();
  Product<Real> product = multiply(held(z, problem.features), w1, run.rule());
  for (Carried& error : product.errors) {
    error.square *= equal_features;
    error.coherent *= equal_features;
  }
  own_h_ = product.errors;
  if (run.with_errors()) add_errors_of_z(product, w1.values);
  for (std::size_t i = 0; i < own_h_.size(); ++i) {
    store(own_h_[i], product.errors[i], product.values[i]);
  }
  h = held(product.values, problem.hidden, product.errors);
}

template <class Real>
Product<Real> NormForward<Real>::y(const Partition& hidden_parts) const {
  const Factor<Real> own = held(h.values, problem.hidden, own_h_);
  Product<Real> product = multiply(own, w2, run.rule(), hidden_parts);
  if (!run.with_errors()) return product;
  add_errors_of_z(product, multiply(w1, w2, ProductRule({}, false)).values);
  return product;
}

template <class Real>
void NormForward<Real>::read_inputs() {
  const Problem& p = problem;
  x = run.matrix("x", p.tokens, p.features);
  w1 = run.matrix("w1", p.features, p.hidden);
  w2 = run.matrix("w2", p.hidden, p.outputs);
  dy = run.matrix("dy", p.tokens, p.outputs);
  gamma = run.values("gamma");
  beta = is_layer_norm(p) ? run.values("beta") : std::vector<double>(gamma.size());
  rows.resize(static_cast<std::size_t>(p.tokens));
  if (!run.with_errors()) return;
  equal_tokens = std::max(equal_rows(x), equal_rows(dy));
  equal_hidden = std::max(equal_columns(w1), equal_rows(w2));
  equal_outputs = std::min(equal_columns(dy), equal_columns(w2));
}

template <class Real>
void NormForward<Real>::normalize(std::size_t token) {
  const std::size_t features = gamma.size();
  const auto count = static_cast<Real>(std::max<std::size_t>(features, 1));
  const Real* values = x.values.data() + token * features;
  Real mean = 0;
  Real variance = 0;
  for (std::size_t k = 0; k < features && is_layer_norm(problem); ++k) mean += values[k] / count;
  for (std::size_t k = 0; k < features; ++k)
    variance += (values[k] - mean) * (values[k] - mean) / count;
  factor.push_back(1 / std::sqrt(variance + static_cast<Real>(effective_epsilon(problem))));
  NormRow& row = rows[token];
  row.x.assign(values, values + features);
  row.mean = static_cast<double>(mean);
  row.variance = static_cast<double>(variance);
  row.factor = static_cast<double>(factor.back());
  for (std::size_t k = 0; k < features; ++k) {
    unit.push_back((values[k] - mean) * factor.back());
    row.unit.push_back(static_cast<double>(unit.back()));
    z.push_back(unit.back() * static_cast<Real>(gamma[k]) + static_cast<Real>(beta[k]));
  }
}

// The errors of z: those of its elements, those that the row shares apart.
template <class Real>
void NormForward<Real>::add_row_errors() {
  for (const NormRow& row : rows) {
    row_errors.push_back(bound.row_error(row));
    for (std::size_t k = 0; k < gamma.size(); ++k) {
      const Real value = z[z_errors.size()];
      Carried own = bound.own_error(row, k, static_cast<double>(value));
      Carried all = own + bound.shared_error(row, row_errors.back(), k);
      store(own, all, value);
      own_z_.push_back(own);
      z_errors.push_back(all);
      scaled_units_.push_back(row.unit[k] * gamma[k]);
    }
  }
  const Factor<Real> columns = held(z, problem.features);
  equal_hidden = std::max(equal_hidden, equal_columns(columns));
  equal_features = std::min(equal_columns(columns), equal_rows(w1));
}

// Adds what errors of z have to do with its product with `right` [features, columns], which it is
// multiplied by in one step or two.
template <class Real>
void NormForward<Real>::add_errors_of_z(Product<Real>& product,
                                        const std::vector<Real>& right) const {
  const std::vector<double> map = narrowed(right);
  const std::vector<Carried> own = through(own_z_, map, problem.features, product.columns);
  const auto by_factor = plain_product_of(scaled_units_, problem.tokens, map, product.columns);
  const auto by_mean = plain_product_of(gamma, 1, map, product.columns);
  for (std::size_t i = 0; i < product.errors.size(); ++i) {
    const std::size_t token = i / by_mean.size();
    const double mean = rows[token].factor * by_mean[i % by_mean.size()];
    Carried& error = product.errors[i];
    error = error + combined(row_errors[token], mean, by_factor[i]);
    if (!own.empty()) error = error + own[i];
    error.common += bias * std::fabs(static_cast<double>(product.values[i]));
    error = checked(error);
  }
}

template <class Real>
Factor<Real> NormForward<Real>::held(const std::vector<Real>& values, Index columns) const {
  const Precision& precision = run.rule().precision;
  const int bits =
      std::min(format(precision.middle).precision, format(precision.accumulator).precision);
  return {problem.tokens, columns,     values, {}, run.rule().units.middle_operand, 0,
          bits,           kInexactGrid};
}

template <class Real>
Factor<Real> NormForward<Real>::held(const std::vector<Real>& values, Index columns,
                                     std::vector<Carried> errors) const {
  const Units& units = run.rule().units;
  return middle_factor(values, std::move(errors), problem.tokens, columns, units.middle.u,
                       run.rule());
}

template <class Real>
void NormForward<Real>::store(Carried& own, Carried& all, Real value) const {
  const Rounding& operand = run.rule().units.middle_operand;
  const double rounding = operand.u * std::fabs(static_cast<double>(value));
  Carried after = all;
  add_middle_rounding(after, run.rule(), value);
  if (!after.exact() || !representable(run.rule().precision.operand, value)) {
    after = after + Carried{rounding + operand.eta, square(rounding), operand.eta, 0};
  }
  own.worst += after.worst - all.worst;
  own.square += after.square - all.square;
  own.common += after.common - all.common;
  own = checked(own);
  all = checked(after);
}

template class NormForward<double>;
template class NormForward<long double>;

}  // namespace shardproof
