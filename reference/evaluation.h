// Evaluation: what the evaluations of operators made of linear layers share: reading inputs,
// storing a projection, and turning products into expected outputs.
#pragma once

#include <algorithm>
#include <string_view>

#include "harness/model/element.h"
#include "reference/projection.h"

namespace shardproof {

template <class Real>
class Evaluation {
 public:
  Evaluation(const Problem& problem, const Contract& contract, Effort effort, bool rms_may_apply)
      : problem_(problem),
        rule_(contract.precision, effort != Effort::kValues),
        effort_(effort),
        generic_(rms_may_apply && is_generic(problem)),
        specs_(problem.op->tensors(problem)) {}

  const ProductRule& rule() const { return rule_; }
  bool with_errors() const { return rule_.with_errors; }

  std::vector<double> values(std::string_view name) const {
    return whole_tensor(problem_, spec(name));
  }

  // An input as a matrix.
  Factor<Real> matrix(std::string_view name, Index rows, Index columns) const {
    return exact_factor<Real>(values(name), rows, columns, rule_);
  }

  // The error of element `i` of a product once its bias is added and it is stored.
  Carried stored(const Product<Real>& product, std::size_t i, double multiplicity, bool has_bias,
                 Real value) const {
    Carried error = product.errors[i];
    error.square *= multiplicity;
    error.coherent *= multiplicity;
    if (has_bias) add_rounding(error, rule_.precision.elementwise, value);
    add_middle_rounding(error, rule_, value);
    return error;
  }

  // The output `name` is the product, plus `bias` on every row unless that is empty.
  void add_output(std::string_view name, const Product<Real>& product, double multiplicity,
                  const std::vector<double>& bias = {}) {
    std::vector<Real> sums = product.values;
    for (std::size_t i = 0; !bias.empty() && i < sums.size(); ++i) {
      sums[i] += static_cast<Real>(bias[i % bias.size()]);
    }
    add_output(name, sums, bounds(product, sums, multiplicity, !bias.empty()), multiplicity == 1);
  }

  // The bounds of `sums`, a product to which, where `has_bias`, a bias was added.
  std::vector<Bound> bounds(const Product<Real>& product, const std::vector<Real>& sums,
                            double multiplicity, bool has_bias) const {
    std::vector<Bound> result(rule_.with_errors ? sums.size() : 0);
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] = reduced_bound(product, i, multiplicity, has_bias, sums[i], rule_);
    }
    return result;
  }

  // An output whose values and bounds are known; `independent`: its errors are not alike.
  void add_output(std::string_view name, const std::vector<Real>& values,
                  const std::vector<Bound>& bounds, bool independent = true) {
    expected_.tensors.push_back(
        output_tensor(spec(name), values, bounds, effort_, generic_ && independent, rule_));
  }

  // Of the latest output, whose elements sum the columns of `terms`.
  void note_terms(const Factor<Real>& terms) {
    double squares = 0;
    for (Real term : terms.values) squares += square(static_cast<double>(term));
    const auto columns = static_cast<double>(std::max<Index>(terms.columns, 1));
    expected_.tensors.back().terms = std::sqrt(squares / columns);
  }

  Expected take() { return std::move(expected_); }

 private:
  const TensorSpec& spec(std::string_view name) const {
    return *std::find_if(specs_.begin(), specs_.end(),
                         [&](const TensorSpec& spec) { return spec.name == name; });
  }

  const Problem& problem_;
  ProductRule rule_;
  Effort effort_;
  bool generic_;
  std::vector<TensorSpec> specs_;
  Expected expected_;
};

// Sums of the columns, which read their operand as it is stored.
template <class Real>
Product<Real> column_sums(Factor<Real> factor, const ProductRule& rule,
                          const Partition& parts = {}) {
  factor.operand = {};
  return multiply(ones<Real>(factor.rows), factor, rule, parts);
}

}  // namespace shardproof
