// For tests: an honest norm, sequence-parallel, and two tensor-parallel layers that keep a
// contract, in one of the forms that NormBound speaks of, and faulty ones.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "reference/emulation.h"
#include "reference/norm_mlp.h"

namespace shardproof {

enum class NormFault {
  kNone,
  kNoEpsilon,
  kSampleVariance,  // divided by one less
  kOnePass,         // mean square less squared mean
  kNoMeanTerm,      // in the backward pass
  kMissingPart,     // one rank left out of the sum of dz
  kOwnTokens,       // dgamma of one rank's tokens
  kLowSum,          // moments added in bf16
};

template <class F>
class NormMlpEmulation {
 public:
  using Outputs = std::map<std::string, std::vector<double>, std::less<>>;

  NormMlpEmulation(const Problem& problem, const Contract& contract, Summation summation,
                   NormFault fault, std::uint64_t seed)
      : problem_(problem),
        precision_(contract.precision),
        parts_(contract.partitions.summed),
        tokens_(contract.partitions.queries),
        arithmetic_(contract.precision, summation, seed),
        fault_(fault),
        style_(arithmetic_.dice().below(3)) {
    inputs_ = dense_inputs<F>(problem);
    if (parts_.empty()) parts_ = arithmetic_.dice().partition(problem.hidden, 1);
    if (tokens_.empty()) tokens_ = arithmetic_.dice().partition(problem.tokens, 1);
  }

  Outputs run() {
    const Index tokens = problem_.tokens;
    const Index features = problem_.features;
    unit_ = z_ = dx_ = Dense<F>(tokens, features);
    factor_.resize(static_cast<std::size_t>(tokens));
    for (Index t = 0; t < tokens; ++t) forward(t);
    z_ = middle(z_);
    outputs_["dw1"].resize(inputs_["w1"].data.size());
    outputs_["dw2"].resize(inputs_["w2"].data.size());
    std::vector<Dense<F>> y_parts, dz_parts;
    for (const auto& part : parts_) run_part(part, y_parts, dz_parts);
    if (fault_ == NormFault::kMissingPart) dz_parts.pop_back();
    outputs_["y"] = returned(arithmetic_.all_reduce(y_parts));
    dz_ = arithmetic_.all_reduce(dz_parts);
    if (arithmetic_.dice().chance(70)) dz_ = middle(dz_);
    for (Index t = 0; t < tokens; ++t) backward(t);
    outputs_["dx"] = returned(dx_);
    sum_over_tokens();
    return outputs_;
  }

 private:
  bool is_layer() const { return is_layer_norm(problem_); }
  F count() const { return static_cast<F>(problem_.features); }

  Dense<F> middle(Dense<F> matrix) const {
    return Arithmetic<F>::rounded(precision_.middle, std::move(matrix));
  }

  std::vector<double> returned(const Dense<F>& matrix) const {
    std::vector<double> result;
    for (F value : matrix.data) {
      result.push_back(round_to(precision_.io, static_cast<double>(value)));
    }
    return result;
  }

  // In order, in any order, or by halves.
  F sum(const std::vector<F>& terms) {
    const bool low = fault_ == NormFault::kLowSum;
    if (style_ == 2 && !low) return pairwise(terms.data(), terms.size());
    F total = 0;
    const auto order = arithmetic_.dice().permutation(static_cast<Index>(terms.size()));
    for (std::size_t i = 0; i < terms.size(); ++i) {
      total += terms[style_ == 0 ? i : static_cast<std::size_t>(order[i])];
      if (low) total = Arithmetic<F>::rounded(DType::kBf16, total);
    }
    return total;
  }

  static F pairwise(const F* terms, std::size_t count) {
    if (count == 0) return 0;
    if (count == 1) return terms[0];
    return pairwise(terms, count / 2) + pairwise(terms + count / 2, count - count / 2);
  }

  F mean(const std::vector<F>& terms) {
    const F total = sum(terms);
    return style_ == 1 ? total * (1 / count()) : total / count();
  }

  std::vector<F> squares(const std::vector<F>& terms) const {
    std::vector<F> result;
    for (F term : terms) result.push_back(term * term);
    return result;
  }

  // A shift at most a standard deviation from the mean, should an element be one.
  const F* shift(const std::vector<F>& x) {
    double exact_mean = 0;
    double variance = 0;
    for (F each : x) exact_mean += static_cast<double>(each) / static_cast<double>(x.size());
    for (F each : x) variance += square(static_cast<double>(each) - exact_mean);
    variance /= static_cast<double>(x.size());
    for (const F& each : x) {
      if (square(static_cast<double>(each) - exact_mean) < 0.999 * variance) return &each;
    }
    return nullptr;
  }

  F variance(const std::vector<F>& x, F mean_of_x) {
    const F* near = arithmetic_.dice().chance(50) && is_layer() ? shift(x) : nullptr;
    if (fault_ == NormFault::kOnePass) return mean(squares(x)) - mean_of_x * mean_of_x;
    std::vector<F> distances;
    for (F each : x) distances.push_back(each - (near ? *near : mean_of_x));
    F result = mean(squares(distances));
    if (near) result -= square_of(mean(distances));
    if (fault_ == NormFault::kSampleVariance) result *= count() / (count() - 1);
    return std::max(result, F{0});
  }

  static F square_of(F value) { return value * value; }

  void forward(Index t) {
    std::vector<F> x;
    for (Index k = 0; k < problem_.features; ++k) x.push_back(inputs_["x"](t, k));
    if (x.empty()) return;
    const F mean_of_x = is_layer() ? mean(x) : F{0};
    const F epsilon = fault_ == NormFault::kNoEpsilon ? F{0} : F(effective_epsilon(problem_));
    const F factor = 1 / std::sqrt(variance(x, mean_of_x) + epsilon);
    factor_[static_cast<std::size_t>(t)] = factor;
    const bool folds = arithmetic_.dice().chance(30);
    for (Index k = 0; k < problem_.features; ++k) {
      const F gamma = inputs_["gamma"](0, k);
      const F distance = x[static_cast<std::size_t>(k)] - mean_of_x;
      unit_(t, k) = distance * factor;
      z_(t, k) = folds ? distance * (factor * gamma) : unit_(t, k) * gamma;
      if (is_layer()) z_(t, k) += inputs_["beta"](0, k);
    }
  }

  void run_part(const std::vector<Index>& part, std::vector<Dense<F>>& y_parts,
                std::vector<Dense<F>>& dz_parts) {
    const Dense<F> w1 = inputs_["w1"].taken(part);
    const Dense<F> w2 = inputs_["w2"].across().taken(part).across();
    const Dense<F> h = middle(arithmetic_.product(z_, w1));
    const Dense<F> dh = middle(arithmetic_.product(inputs_["dy"], w2.across()));
    y_parts.push_back(arithmetic_.product(h, w2));
    dz_parts.push_back(arithmetic_.product(dh, w1.across()));
    put_columns("dw1", arithmetic_.product(z_.across(), dh), part, false);
    put_columns("dw2", arithmetic_.product(h.across(), inputs_["dy"]).across(), part, true);
  }

  // Writes the columns of one part into the whole, or into the rows of its transpose.
  void put_columns(const char* name, const Dense<F>& matrix, const std::vector<Index>& part,
                   bool across) {
    std::vector<double>& whole = outputs_[name];
    for (Index i = 0; i < matrix.rows; ++i) {
      for (Index j = 0; j < matrix.columns; ++j) {
        const Index unit = part[static_cast<std::size_t>(j)];
        const Index at = across ? unit * matrix.rows + i : i * problem_.hidden + unit;
        whole[static_cast<std::size_t>(at)] =
            round_to(precision_.io, static_cast<double>(matrix(i, j)));
      }
    }
  }

  void backward(Index t) {
    std::vector<F> w, products;
    for (Index k = 0; k < problem_.features; ++k) {
      w.push_back(dz_(t, k) * inputs_["gamma"](0, k));
      products.push_back(w.back() * unit_(t, k));
    }
    if (w.empty()) return;
    const bool has_mean = is_layer() && fault_ != NormFault::kNoMeanTerm;
    const F first = has_mean ? mean(w) : F{0};
    const F second = mean(products);
    const Index form = arithmetic_.dice().below(3);
    const F factor = factor_[static_cast<std::size_t>(t)];
    for (Index k = 0; k < problem_.features; ++k) {
      const F each = w[static_cast<std::size_t>(k)];
      const F unit = unit_(t, k);
      dx_(t, k) = form == 0   ? factor * (each - first - unit * second)
                  : form == 1 ? factor * (each - (first + unit * second))
                              : factor * each - factor * (first + unit * second);
    }
  }

  // Of each part of the tokens, all-reduced.
  void sum_over_tokens() {
    std::vector<Dense<F>> gamma, beta;
    for (const auto& part : tokens_) {
      gamma.emplace_back(1, problem_.features);
      beta.emplace_back(1, problem_.features);
      for (Index k = 0; k < problem_.features; ++k) {
        std::vector<F> products, terms;
        for (Index t : part) {
          products.push_back(dz_(t, k) * unit_(t, k));
          terms.push_back(dz_(t, k));
        }
        gamma.back()(0, k) = sum(products);
        beta.back()(0, k) = sum(terms);
      }
    }
    const bool own = fault_ == NormFault::kOwnTokens;
    outputs_["dgamma"] = returned(own ? gamma[0] : arithmetic_.all_reduce(gamma));
    if (is_layer()) outputs_["dbeta"] = returned(arithmetic_.all_reduce(beta));
  }

  Problem problem_;
  Precision precision_;
  Partition parts_, tokens_;
  Arithmetic<F> arithmetic_;
  NormFault fault_;
  Index style_;
  DenseTensors<F> inputs_;
  Dense<F> unit_, z_, dz_, dx_;
  std::vector<F> factor_;
  Outputs outputs_;
};

}  // namespace shardproof
