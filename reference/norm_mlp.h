// A norm and two linear layers: y = (z w1) w2 with z = (x - mean) / sqrt(variance + epsilon) *
// gamma
// + beta over the features of each token (LayerNorm, Ba et al. 2016), or without mean and beta
// (RMSNorm, Zhang & Sennrich 2019), and all gradients of sum(dy * y).
#pragma once

#include <span>

#include "harness/model/operator.h"
#include "reference/carried.h"

namespace shardproof {

const Operator& norm_mlp_operator();

Expected evaluate_norm_mlp(const Problem& problem, const Contract& contract, Effort effort);

inline bool is_layer_norm(const Problem& problem) { return problem.norm == Norm::kLayer; }

// One token, exactly.
struct NormRow {
  std::vector<double> x;
  std::vector<double> unit;  // (x - mean) * factor
  double mean = 0;
  double variance = 0;  // about the mean; RMSNorm: about 0
  double factor = 1;    // 1 / sqrt(variance + epsilon)
};

// Its gradient: w = dz * gamma; dx = factor * (w - mean - unit * product).
struct NormGradient {
  std::vector<double> w;
  std::vector<double> dx;
  double mean = 0;     // of w; RMSNorm: 0
  double product = 0;  // mean of w * unit
};

// The errors that all elements of a row share.
struct RowError {
  Carried mean;
  Carried factor;  // relative
};

// What a contract permits. The subject that it speaks of computes, all in precision.elementwise and
// sums in any order: the mean; the variance in two passes, or in one about a shift that is at most
// a standard deviation from the mean; z as (x - mean) * factor * gamma + beta; with w = dz * gamma
// and the normalised x as before, the means of w and w * unit, and factor * (w - mean - unit *
// product) in any association. Sums over tokens are those of partitions.queries, all-reduced.
class NormBound {
 public:
  NormBound(const Problem& problem, const Contract& contract);

  RowError row_error(const NormRow& row) const;

  // Of element k of z, less and of those shared by the row, before it is stored.
  Carried own_error(const NormRow& row, std::size_t k, double z) const;
  Carried shared_error(const NormRow& row, const RowError& error, std::size_t k) const;

  // Of element k of the normalised x.
  Carried unit_error(const NormRow& row, const RowError& error, std::size_t k) const;

  // Of every element of dx, as far as dz is exact. w is rounded once, the normalised x twice; then
  // the terms of the sums and their quotients, the differences, and the products.
  std::vector<Bound> gradient(const NormRow& row, const RowError& error,
                              const NormGradient& at) const;

  // Of every element of dx: what these roundings and the row's shared errors add where w, with
  // `errors` of its own, is not as small as it should be. dz may cancel to less than its error, and
  // dx once more, so that no share of dz or dx covers it.
  std::vector<Family> gradient_of_errors(const NormRow& row, const RowError& error,
                                         std::span<const Carried> errors) const;

  // Of every element of dx: what errors of the vector v have to do with it where dz = matrix v,
  // [features, count].
  std::vector<Family> of_upstream(const NormRow& row, const std::vector<double>& matrix,
                                  std::span<const Carried> errors) const;

 private:
  NormGradient largest_gradient(const NormRow& row, std::vector<double> reach) const;
  Carried mean_error(const NormRow& row) const;
  Carried variance_error(const NormRow& row, const Carried& mean) const;
  Carried sum_error(const std::vector<double>& terms, double each, double equal, double mean) const;
  Family shared_by_gradient(const NormRow& row, const RowError& error, const NormGradient& at,
                            std::size_t k) const;

  bool is_layer_;
  double epsilon_;
  double count_;      // of features
  double divisions_;  // roundings of a division by it
  ProductRule rule_;
  double u_;  // of every elementary operation
  double eta_;
  std::vector<double> gamma_;
};

// An error of mean's and factor's that moves an element by `by_mean` and `by_factor` times them.
Carried combined(const RowError& error, double by_mean, double by_factor);

}  // namespace shardproof
