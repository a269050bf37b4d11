#include "reference/attention_layer_probe.h"

#include <bit>
#include <cstring>

#include "harness/model/element.h"
#include "reference/attention_product.h"
#include "reference/eight.h"

namespace shardproof {
namespace {

// Half of the probes move operands by their errors, half by kLambda times as much: where the
// response is not linear, T2 must hold for errors kLambda times larger than typical ones. An
// estimate of a variance V from n squares has a lower tail; T2 fails when it falls below about V/9
// (roundings reach two of their bounds' deviations, T2 allows six). Two equal errors, the worst
// case, cancel in all probes of a kind with chance 2^-n; many errors give chi-square with n degrees
// of freedom. With both kinds: below 2^-32 for n = 16, and where a result has many sources, below
// 1e-6 for n = 8, before the caller evens it out over each row.
constexpr std::uint64_t kFewSources = 16;  // probes of each kind, a multiple of Eight::kCount
constexpr std::uint64_t kManySources = 8;
constexpr double kManyProducts = 1e6;  // multiply-adds of a layer with many sources

bool has_many_sources(const LayerProbe& probe) {
  const double pairs = static_cast<double>(probe.tokens * probe.inner.heads * probe.inner.kv);
  return pairs * static_cast<double>(probe.inner.dim + probe.inner.dim_v) > kManyProducts;
}

// How many probes one T holds, and one of them.
template <class T>
constexpr int kLanes = 1;
template <>
constexpr int kLanes<Eight> = Eight::kCount;
double lane_of(double value, int) { return value; }
double lane_of(const Eight& value, int lane) { return value[lane]; }

// Operands of f64 problems move further, beyond the rounding errors of this evaluation.
double enlargement(const Problem& problem) { return problem.dtype == DType::kF64 ? 0x1p24 : 1.0; }

// A draw of signs for every lane, each a hash of the value and of the lane's own key.
template <class T>
struct Signs {
  std::uint64_t keys[kLanes<T>];

  template <class Function>
  explicit Signs(Function stream) {
    for (int lane = 0; lane < kLanes<T>; ++lane) keys[lane] = mix(stream(lane));
  }

  // +factor or -factor in every lane.
  T of(double value, double factor) const {
    const auto bits = std::bit_cast<std::uint64_t>(value + 0.0);
    double signs[kLanes<T>];
    for (int lane = 0; lane < kLanes<T>; ++lane) {
      signs[lane] = mix(bits ^ keys[lane]) & 1 ? factor : -factor;
    }
    T result;
    std::memcpy(&result, signs, sizeof signs);
    return result;
  }
};

// What attention reads.
template <class T>
struct Operands {
  std::vector<T> q, k, v, dout, dlse;

  explicit Operands(const LayerProbe& probe)
      : q(probe.q.values.size()),
        k(probe.k.values.size()),
        v(probe.v.values.size()),
        dout(probe.dout.values.size()),
        dlse(probe.delta_reach.size()) {}
  AttentionInputs<T> view() const { return {q, k, v, {}, dout, dlse}; }
};

template <class T>
void move(const Movable& operand, const Signs<T>& signs, double factor, std::vector<T>& result) {
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double value = operand.values[i];
    result[i] = T(value) + signs.of(value, factor * operand.reach[i]);
  }
}

// The operands of the probe `first` and those after it, one a lane. An error e of lse scales its
// row of P, hence of dS and of what dv receives, by 1 - e: as if dout were scaled. An error of
// delta is one of dlse with the other sign.
template <class T>
void move(const LayerProbe& probe, std::uint64_t first, double factor, Operands<T>& operands) {
  const Problem& p = probe.inner;
  const auto stream = [&](int lane) { return first + static_cast<std::uint64_t>(lane); };
  const auto signs_of = [&](std::uint64_t operand) {
    return Signs<T>([&](int lane) { return 4 * stream(lane) + operand; });
  };
  move(probe.q, signs_of(0), factor, operands.q);
  move(probe.k, signs_of(1), factor, operands.k);
  move(probe.v, signs_of(2), factor, operands.v);
  move(probe.dout, signs_of(3), factor, operands.dout);
  const Signs<T> of_delta([&](int lane) { return ~stream(lane); });
  const Signs<T> of_lse([&](int lane) { return ~stream(lane) + (1ull << 32); });
  for (std::size_t i = 0; i < operands.dlse.size(); ++i) {
    const auto row = static_cast<Index>(i);
    const auto draw = static_cast<double>(row);
    operands.dlse[i] = of_delta.of(draw, factor * probe.delta_reach[i]);
    const T scale = T(1) + of_lse.of(draw, factor * probe.lse_reach[i]);
    const Index batch = row / (p.heads * p.q);
    const Index head = row / p.q % p.heads;
    const Index to = ((batch * p.q + row % p.q) * p.heads + head) * p.dim_v;
    for (Index d = 0; d < p.dim_v; ++d) operands.dout[static_cast<std::size_t>(to + d)] *= scale;
  }
}

// As they are, or pulled toward zero by the common errors.
template <class T>
void hold(const LayerProbe& probe, bool pulled, Operands<T>& operands) {
  const auto set = [&](const Movable& operand, std::vector<T>& result) {
    for (std::size_t i = 0; i < result.size(); ++i) {
      const double value = operand.values[i];
      const bool pull = pulled && !operand.common.empty();
      result[i] = T(pull ? value - std::copysign(operand.common[i], value) : value);
    }
  };
  set(probe.q, operands.q);
  set(probe.k, operands.k);
  set(probe.v, operands.v);
  set(probe.dout, operands.dout);
}

template <class T>
LayerResults<T> evaluate(const LayerProbe& probe, const Operands<T>& operands) {
  const AttentionValues<T> at = attention_values<T>(probe.inner, operands.view());
  const Index tokens = probe.tokens;
  const Index features = probe.features;
  const Index outs = probe.inner.heads * probe.inner.dim_v;
  const Index columns = probe.query_columns() + probe.key_columns() + probe.value_columns();
  LayerResults<T> results;
  results.y.resize(size_of(tokens, features));
  results.dx.resize(size_of(tokens, features));
  results.weights.resize(size_of(features, columns));
  results.biases.resize(size_of(1, columns));
  results.dwo.resize(size_of(outs, features));
  add_product(tokens, outs, features, Strided<T>{at.out.data(), outs, 1}, probe.wo.data(), features,
              results.y.data(), features);
  add_product(outs, tokens, features, Strided<T>{at.out.data(), 1, outs}, probe.dy.data(), features,
              results.dwo.data(), features);
  const double one = 1;
  Index first = 0;
  const auto add = [&](const std::vector<T>& gradient, Index width) {
    add_product(tokens, width, features, Strided<T>{gradient.data(), width, 1},
                probe.weights_across.data() + first * features, features, results.dx.data(),
                features);
    add_product(features, tokens, width, Strided<double>{probe.x.data(), 1, features},
                gradient.data(), width, results.weights.data() + first, columns);
    add_product(1, tokens, width, Strided<double>{&one, 0, 0}, gradient.data(), width,
                results.biases.data() + first, columns);
    first += width;
  };
  add(at.dq, probe.query_columns());
  add(at.dk, probe.key_columns());
  add(at.dv, probe.value_columns());
  return results;
}

template <class T>
LayerResults<double> zeros_like(LayerResults<T>& results) {
  LayerResults<double> result;
  for (std::size_t r = 0; r < result.all().size(); ++r) {
    result.all()[r]->resize(results.all()[r]->size());
  }
  return result;
}

// target = max(target, mean squares over the probes of one kind); NaN when any is NaN. `base`: the
// results without any move.
template <class T>
void add_kind(const LayerProbe& probe, LayerResults<T>& base, std::uint64_t first, double factor,
              double divisor, LayerResults<double>& target) {
  LayerResults<double> sums = zeros_like(base);
  Operands<T> operands(probe);
  const std::uint64_t probes = has_many_sources(probe) ? kManySources : kFewSources;
  for (std::uint64_t stream = first; stream < first + probes; stream += kLanes<T>) {
    move(probe, stream, factor, operands);
    LayerResults<T> results = evaluate(probe, operands);
    for (std::size_t r = 0; r < results.all().size(); ++r) {
      const std::vector<T>& from = *base.all()[r];
      std::vector<double>& sum = *sums.all()[r];
      for (std::size_t i = 0; i < sum.size(); ++i) {
        const T response = ((*results.all()[r])[i] - from[i]) / T(divisor);
        const T squares = response * response;
        for (int lane = 0; lane < kLanes<T>; ++lane) sum[i] += lane_of(squares, lane);
      }
    }
  }
  for (std::size_t r = 0; r < sums.all().size(); ++r) {
    std::vector<double>& to = *target.all()[r];
    const std::vector<double>& from = *sums.all()[r];
    for (std::size_t i = 0; i < to.size(); ++i) {
      const double mean = from[i] / static_cast<double>(probes);
      if (!(mean <= to[i])) to[i] = mean;
    }
  }
}

template <class T>
LayerResponse respond_by(const LayerProbe& probe) {
  Operands<T> operands(probe);
  hold(probe, false, operands);
  LayerResults<T> base = evaluate(probe, operands);
  LayerResponse response;
  response.square = zeros_like(base);
  const double by = enlargement(probe.inner);
  add_kind(probe, base, 1, by, by, response.square);
  add_kind(probe, base, 1 + kFewSources, by * kLambda, by * kLambda, response.square);
  const bool leans = !(probe.q.common.empty() && probe.k.common.empty() && probe.v.common.empty() &&
                       probe.dout.common.empty());
  if (!leans) return response;
  hold(probe, true, operands);
  LayerResults<T> pulled = evaluate(probe, operands);
  response.common = zeros_like(base);
  for (std::size_t r = 0; r < base.all().size(); ++r) {
    std::vector<double>& to = *response.common.all()[r];
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] = std::fabs(lane_of((*pulled.all()[r])[i], 0) - lane_of((*base.all()[r])[i], 0));
    }
  }
  return response;
}

}  // namespace

// Eight probes at once, as long as their operands stay in the cache.
LayerResponse respond(const LayerProbe& probe) {
  return has_many_sources(probe) ? respond_by<double>(probe) : respond_by<Eight>(probe);
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
