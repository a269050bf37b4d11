// The forward pass of norm_mlp: its values, and the errors with which a subject has them. The
// layers are linear maps, so an error is taken through all of them at once, with its sign: those of
// one element of z through w1 w2, those that a row shares as the direction in which they move it.
#pragma once

#include "reference/evaluation.h"
#include "reference/norm_error.h"
#include "reference/norm_mlp.h"

namespace shardproof {

template <class Real>
class NormForward {
 public:
  NormForward(const Problem& problem, const Contract& contract, const Evaluation<Real>& run);

  // y = h w2, with its errors.
  Product<Real> y(const Partition& hidden_parts) const;

  // A factor of type precision.middle, its errors accounted for elsewhere, or here.
  Factor<Real> held(const std::vector<Real>& values, Index columns) const;
  Factor<Real> held(const std::vector<Real>& values, Index columns,
                    std::vector<Carried> errors) const;

  // Stores a value whose errors are `all`, of which `own` are a part.
  void store(Carried& own, Carried& all, Real value) const;

  const Problem& problem;
  const Evaluation<Real>& run;
  NormBound bound;
  Factor<Real> x, w1, w2, dy;
  std::vector<double> gamma, beta;
  std::vector<Real> z, unit;  // [tokens, features]
  std::vector<Real> factor;   // [tokens]
  std::vector<NormRow> rows;
  std::vector<RowError> row_errors;
  std::vector<Carried> z_errors;  // what the row shares included
  Factor<Real> h;
  double equal_tokens = 1;  // equal rows round equally: see Bound::add
  double equal_hidden = 1;
  double equal_features = 1;
  double equal_outputs = 1;
  double bias = 0;  // relative, that all elements of a stored tensor may share

 private:
  void read_inputs();
  void normalize(std::size_t token);
  void add_row_errors();
  void add_errors_of_z(Product<Real>& product, const std::vector<Real>& right) const;

  std::vector<Carried> own_z_, own_h_;  // what the row shares, and z's, not included
  std::vector<double> scaled_units_;    // unit * gamma
};

}  // namespace shardproof
