#include "reference/attention_layer_probe.h"

#include <bit>

#include "harness/model/element.h"
#include "reference/projection_error.h"

namespace shardproof {
namespace {

// Half of the probes move operands by their errors, half by kLambda times as much: where the
// response is not linear, T2 must hold for errors kLambda times larger than typical ones. An
// estimate of a variance V from n squares has a lower tail; T2 fails when it falls below about V/9
// (roundings reach two of their bounds' deviations, T2 allows six). Two equal errors, the worst
// case, cancel in all probes of a kind with chance 2^-n; many errors give chi-square with n degrees
// of freedom. With both kinds: below 2^-32 for n = 16, and where a result has many sources, below
// 1e-6 for n = 8, before the caller evens it out over each row.
constexpr std::uint64_t kFewSources = 16;  // probes of each kind
constexpr std::uint64_t kManySources = 8;
constexpr double kManyProducts = 1e6;  // multiply-adds of a layer with many sources

std::uint64_t probes_of_a_kind(const LayerProbe& probe) {
  const double pairs = static_cast<double>(probe.tokens * probe.inner.heads * probe.inner.kv);
  const double products = pairs * static_cast<double>(probe.inner.dim + probe.inner.dim_v);
  return products > kManyProducts ? kManySources : kFewSources;
}

// Operands of f64 problems move further, beyond the rounding errors of this evaluation.
double enlargement(const Problem& problem) { return problem.dtype == DType::kF64 ? 0x1p24 : 1.0; }

double sign(double value, std::uint64_t stream) {
  return mix(std::bit_cast<std::uint64_t>(value + 0.0) ^ mix(stream)) & 1 ? 1.0 : -1.0;
}

std::vector<double> moved(const Movable& operand, std::uint64_t stream, double factor) {
  std::vector<double> result = operand.values;
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] += factor * sign(result[i], stream) * operand.reach[i];
  }
  return result;
}

std::vector<double> pulled(const Movable& operand) {
  std::vector<double> result = operand.values;
  for (std::size_t i = 0; i < operand.common.size(); ++i) {
    result[i] -= std::copysign(operand.common[i], result[i]);
  }
  return result;
}

// What attention reads.
struct Operands {
  std::vector<double> q, k, v, dout, dlse;

  AttentionInputs<double> view() const { return {q, k, v, {}, dout, dlse}; }
};

// An error e of lse scales its row of P, hence of dS and of what dv receives, by 1 - e: as if dout
// were scaled. An error of delta is one of dlse with the other sign.
Operands moved(const LayerProbe& probe, std::uint64_t stream, double factor) {
  const Problem& p = probe.inner;
  Operands operands{moved(probe.q, 4 * stream, factor),
                    moved(probe.k, 4 * stream + 1, factor),
                    moved(probe.v, 4 * stream + 2, factor),
                    moved(probe.dout, 4 * stream + 3, factor),
                    {}};
  operands.dlse.resize(probe.delta_reach.size());
  for (std::size_t i = 0; i < operands.dlse.size(); ++i) {
    const auto row = static_cast<Index>(i);
    const auto draw = static_cast<double>(row);
    operands.dlse[i] = factor * sign(draw, ~stream) * probe.delta_reach[i];
    const double scale = 1 + factor * sign(draw, ~stream + (1ull << 32)) * probe.lse_reach[i];
    const Index batch = row / (p.heads * p.q);
    const Index head = row / p.q % p.heads;
    const Index first = ((batch * p.q + row % p.q) * p.heads + head) * p.dim_v;
    for (Index d = 0; d < p.dim_v; ++d) operands.dout[static_cast<std::size_t>(first + d)] *= scale;
  }
  return operands;
}

// [a, b, c] of matrices with `rows` rows.
std::vector<double> side_by_side(const std::vector<double>& a, const std::vector<double>& b,
                                 const std::vector<double>& c, Index rows) {
  std::vector<double> result;
  result.reserve(a.size() + b.size() + c.size());
  for (Index row = 0; row < rows; ++row) {
    for (const std::vector<double>* part : {&a, &b, &c}) {
      const auto width = static_cast<Index>(part->size()) / rows;
      result.insert(result.end(), part->begin() + row * width, part->begin() + (row + 1) * width);
    }
  }
  return result;
}

std::vector<double> across(const std::vector<double>& matrix, Index rows, Index columns) {
  std::vector<double> result(matrix.size());
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j) {
      result[size_of(j, rows) + static_cast<std::size_t>(i)] =
          matrix[size_of(i, columns) + static_cast<std::size_t>(j)];
    }
  }
  return result;
}

LayerResults evaluate(const LayerProbe& probe, const Operands& operands) {
  const AttentionValues<double> at = attention_values<double>(probe.inner, operands.view());
  const Index columns = probe.query_columns() + probe.key_columns() + probe.value_columns();
  const Index out_columns = probe.inner.heads * probe.inner.dim_v;
  const std::vector<double> gradients = side_by_side(at.dq, at.dk, at.dv, probe.tokens);
  const std::vector<double> sum(static_cast<std::size_t>(probe.tokens), 1.0);
  return {plain_product(at.out, probe.wo, probe.tokens, out_columns, probe.features),
          plain_product(gradients, probe.weights_across, probe.tokens, columns, probe.features),
          plain_product(probe.x_across, gradients, probe.features, probe.tokens, columns),
          plain_product(sum, gradients, 1, probe.tokens, columns),
          plain_product(across(at.out, probe.tokens, out_columns), probe.dy, out_columns,
                        probe.tokens, probe.features)};
}

LayerResults zeros_like(LayerResults& results) {
  LayerResults result;
  for (std::size_t r = 0; r < result.all().size(); ++r) {
    result.all()[r]->resize(results.all()[r]->size());
  }
  return result;
}

// target = max(target, mean squares over the probes of one kind); NaN when any is NaN.
void add_kind(const LayerProbe& probe, LayerResults& base, std::uint64_t first, double factor,
              double divisor, LayerResults& target) {
  LayerResults sums = zeros_like(base);
  const std::uint64_t probes = probes_of_a_kind(probe);
  for (std::uint64_t stream = first; stream < first + probes; ++stream) {
    LayerResults results = evaluate(probe, moved(probe, stream, factor));
    for (std::size_t r = 0; r < results.all().size(); ++r) {
      std::vector<double>& sum = *sums.all()[r];
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] += square(((*results.all()[r])[i] - (*base.all()[r])[i]) / divisor) /
                  static_cast<double>(probes);
      }
    }
  }
  for (std::size_t r = 0; r < sums.all().size(); ++r) {
    std::vector<double>& to = *target.all()[r];
    const std::vector<double>& from = *sums.all()[r];
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (!(from[i] <= to[i])) to[i] = from[i];
    }
  }
}

}  // namespace

LayerResponse respond(const LayerProbe& probe) {
  LayerResponse response;
  const std::vector<double> still(probe.delta_reach.size(), 0.0);
  LayerResults base =
      evaluate(probe, {probe.q.values, probe.k.values, probe.v.values, probe.dout.values, still});
  response.square = zeros_like(base);
  const double by = enlargement(probe.inner);
  add_kind(probe, base, 1, by, by, response.square);
  add_kind(probe, base, 1 + kFewSources, by * kLambda, by * kLambda, response.square);
  const bool leans = !(probe.q.common.empty() && probe.k.common.empty() && probe.v.common.empty() &&
                       probe.dout.common.empty());
  if (!leans) return response;
  response.common = evaluate(
      probe, {pulled(probe.q), pulled(probe.k), pulled(probe.v), pulled(probe.dout), still});
  for (std::size_t r = 0; r < base.all().size(); ++r) {
    std::vector<double>& to = *response.common.all()[r];
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::fabs(to[i] - (*base.all()[r])[i]);
  }
  return response;
}

std::vector<double> lse_reach(const AttentionBounds& bounds) {
  std::vector<double> result;
  for (const Bound& lse : bounds.lse) result.push_back(lse.linear + std::sqrt(lse.square));
  return result;
}

template <class Real>
std::vector<double> delta_reach(const Problem& p, const Factor<Real>& dout,
                                const std::vector<Real>& out, const AttentionBounds& bounds,
                                const Rounding& saved_out) {
  std::vector<double> result;
  for (Index row = 0; row < p.batch * p.heads * p.q; ++row) {
    const Index token = row / (p.heads * p.q) * p.q + row % p.q;
    const Index first = (token * p.heads + row / p.q % p.heads) * p.dim_v;
    double sum = 0;
    for (Index d = 0; d < p.dim_v; ++d) {
      const auto at = static_cast<std::size_t>(first + d);
      const double rounding = saved_out.u * static_cast<double>(out[at]);
      sum += square(static_cast<double>(dout.values[at])) *
             (bounds.out[at].as_family().square + square(rounding));
    }
    result.push_back(std::sqrt(sum));
  }
  return result;
}

template <class Real>
Product<Real> with_response(Product<Real> product, double multiplicity,
                            const ResponseColumns& response) {
  if (product.errors.empty()) return product;
  for (Index row = 0; row < product.rows; ++row) {
    const Index first = row * response.columns + response.first;
    double mean = 0;
    for (Index j = 0; j < product.columns; ++j) {
      mean += response.square[static_cast<std::size_t>(first + j)] /
              static_cast<double>(product.columns);
    }
    for (Index j = 0; j < product.columns; ++j) {
      const auto from = static_cast<std::size_t>(first + j);
      Carried& error = product.errors[static_cast<std::size_t>(row * product.columns + j)];
      error.square += (response.square[from] + mean) / multiplicity;
      if (!response.common.empty()) error.common += response.common[from];
      if (!(error.square < kUnbounded)) error = {kUnbounded, kUnbounded, kUnbounded, 0};
    }
  }
  return product;
}

#define INSTANTIATE(Real)                                                                    \
  template std::vector<double> delta_reach(const Problem&, const Factor<Real>&,              \
                                           const std::vector<Real>&, const AttentionBounds&, \
                                           const Rounding&);                                 \
  template Product<Real> with_response(Product<Real>, double, const ResponseColumns&);
INSTANTIATE(double)
INSTANTIATE(long double)
#undef INSTANTIATE

}  // namespace shardproof
