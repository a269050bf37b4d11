// What the errors of q, k, v, dout and of the rows' lse and delta do to every result of an
// attention layer. They reach a result on many paths that partly cancel and partly add up, which no
// bound of stage after stage can see. So the whole layer is evaluated on operands moved by these
// very errors with random signs: the mean square of the response is sum (sensitivity * error)^2,
// the `square` of a Family, with every coherence in it. Deterministic: the signs are a hash of the
// operand's value, so that equal elements, which round equally, move together.
#pragma once

#include <array>

#include "reference/attention.h"
#include "reference/projection.h"

namespace shardproof {

// One operand of attention, or one quantity a row, and how far it may move.
struct Movable {
  std::vector<double> values;
  std::vector<double> reach;   // as sqrt(Family::square)
  std::vector<double> common;  // toward zero, all elements together; empty: nothing
};

struct LayerProbe {
  const Problem& inner;  // the attention inside, its key/value heads as in the layer
  Movable q, k, v, dout;
  std::vector<double> lse_reach;    // [batch, heads, q]
  std::vector<double> delta_reach;  // likewise

  // The linear maps around attention.
  Index tokens = 0;
  Index features = 0;
  std::vector<double> x;               // [tokens, features]
  std::vector<double> weights_across;  // [wq; wk; wv] transposed, [columns of all, features]
  std::vector<double> wo;              // [heads * dim_v, features]
  std::vector<double> dy;              // [tokens, features]

  Index query_columns() const { return inner.heads * inner.dim; }
  Index key_columns() const { return inner.kv_heads * inner.dim; }
  Index value_columns() const { return inner.kv_heads * inner.dim_v; }
};

// The results of a layer, or the squares of their responses. The weights' gradients stand side by
// side: those of wq, wk, wv.
template <class T>
struct LayerResults {
  std::vector<T> y;        // [tokens, features]
  std::vector<T> dx;       // [tokens, features]
  std::vector<T> weights;  // [features, query + key + value columns]
  std::vector<T> biases;   // [1, query + key + value columns]
  std::vector<T> dwo;      // [heads * dim_v, features]

  std::array<std::vector<T>*, 5> all() { return {&y, &dx, &weights, &biases, &dwo}; }
};

struct LayerResponse {
  LayerResults<double> square;
  LayerResults<double> common;  // magnitude of the response to the common errors; empty without any
};
LayerResponse respond(const LayerProbe& probe);

template <class Real>
std::vector<double> narrow(const Factor<Real>& factor) {
  return {factor.values.begin(), factor.values.end()};
}

// The variance proxy of an element, all that its row shares included.
template <class Real>
double row_square(const Factor<Real>& factor, const Carried& error) {
  return error.square + static_cast<double>(factor.columns) * error.coherent;
}

// Errors that may be common (truncation, underflow) move with the others, each by itself, and are
// tried all together: where the accumulator `truncates`, and where they outweigh the others.
template <class Real>
Movable movable(const Factor<Real>& factor, bool truncates) {
  Movable result{narrow(factor), std::vector<double>(factor.values.size()), {}};
  bool together = truncates;
  for (std::size_t i = 0; i < factor.errors.size(); ++i) {
    const Carried& error = factor.errors[i];
    const double own = row_square(factor, error);
    result.reach[i] = std::sqrt(own + square(error.common));
    together = together || square(error.common) > own;
  }
  if (!together) return result;
  for (const Carried& error : factor.errors) result.common.push_back(error.common);
  return result;
}

// Of lse and of delta = rowsum(dout * out), given the bounds of attention on exact operands.
std::vector<double> lse_reach(const AttentionBounds& bounds);
template <class Real>
std::vector<double> delta_reach(const Problem& inner, const Factor<Real>& dout,
                                const std::vector<Real>& out, const AttentionBounds& bounds,
                                const Rounding& saved_out);

// Which columns of a response belong to a product.
struct ResponseColumns {
  const std::vector<double>& square;  // [rows, columns]
  const std::vector<double>& common;  // likewise, or empty
  Index columns;                      // of all
  Index first;                        // the product's first
};

// Adds the response to a product's errors. The estimate of each element's variance is evened out
// with that of its row. `multiplicity`: what the errors' squares will be multiplied by.
template <class Real>
Product<Real> with_response(Product<Real> product, double multiplicity,
                            const ResponseColumns& response);

}  // namespace shardproof
