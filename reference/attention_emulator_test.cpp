#include "reference/attention_emulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "reference/attention_emulator_arithmetic.h"

namespace shardproof {
namespace {

// Real: the accumulator's and softmax's type, float or double.
template <class Real>
class Emulator : private EmulatedArithmetic<Real> {
 public:
  Emulator(const Problem& problem, const NamedTensors& inputs, const Contract& contract,
           const Emulation& how)
      : Base(contract.precision, how),
        p_(problem),
        in_(inputs),
        precision_(contract.precision),
        how_(how) {
    queries_ = contract.partitions.queries.empty() ? whole(p_.q) : contract.partitions.queries;
    keys_ = contract.partitions.keys.empty() ? whole(p_.kv) : contract.partitions.keys;
    const Real dim = static_cast<Real>(p_.dim);
    scale_ =
        how.fault == EmulatedFault::kScaleByDim ? 1 / dim : static_cast<Real>(effective_scale(p_));
    cap_ = static_cast<Real>(effective_softcap(p_));
    group_ = p_.heads / p_.kv_heads;
  }

  NamedTensors run() {
    make("out", p_.batch * p_.q * p_.heads * p_.dim_v);
    make("lse", p_.batch * p_.heads * p_.q);
    make("dq", p_.batch * p_.q * p_.heads * p_.dim);
    make("dk", p_.batch * p_.kv * p_.kv_heads * p_.dim);
    make("dv", p_.batch * p_.kv * p_.kv_heads * p_.dim_v);
    if (p_.bias == ScoreBias::kDense) make("dbias", p_.heads * p_.q * p_.kv);
    for (Index b = 0; b < p_.batch; ++b) {
      for (Index h = 0; h < p_.heads; ++h) {
        for (std::size_t a = 0; a < queries_.size(); ++a) {
          for (Index i : queries_[a]) forward(b, h, i, a);
        }
      }
      for (Index g = 0; g < p_.kv_heads; ++g) backward(b, g);
    }
    for (const char* name : {"out", "dq", "dk", "dv", "dbias"}) {
      for (double& value : result_[name]) value = round_to(precision_.io, value);
    }
    if (p_.bias != ScoreBias::kDense) result_.erase("dbias");
    return std::move(result_);
  }

 private:
  using Base = EmulatedArithmetic<Real>;
  using Span = typename Base::Span;
  using Base::added;
  using Base::dot;
  using Base::rounded;

  void make(const char* name, Index size) { result_[name].resize(static_cast<std::size_t>(size)); }

  double input(std::string_view name, Index at) const {
    return in_.find(name)->second[static_cast<std::size_t>(at)];
  }
  Index q_at(Index b, Index i, Index h) const { return (b * p_.q + i) * p_.heads + h; }
  Index k_at(Index b, Index j, Index h) const { return (b * p_.kv + j) * p_.kv_heads + h / group_; }
  Index row_at(Index b, Index h, Index i) const { return (b * p_.heads + h) * p_.q + i; }

  Span row(std::string_view name, Index at, Index width) const {
    Span values(static_cast<std::size_t>(width));
    for (Index d = 0; d < width; ++d) {
      values[static_cast<std::size_t>(d)] = static_cast<Real>(input(name, at * width + d));
    }
    return values;
  }

  // tanh(x / cap) goes to `tanh` when there is a softcap.
  Real logit(Index b, Index h, Index i, Index j, Real* tanh = nullptr) {
    const Real product = dot(row("q", q_at(b, i, h), p_.dim), row("k", k_at(b, j, h), p_.dim));
    Real z = rounded(precision_.score, product * scale_);
    if (cap_ > 0) {
      const Real t = std::tanh(z / cap_);
      if (tanh != nullptr) *tanh = t;
      z = cap_ * t;
    }
    if (p_.bias == ScoreBias::kAlibi) {
      z -= static_cast<Real>(alibi_slope(p_, h)) * static_cast<Real>(std::abs(i - j));
    } else if (p_.bias == ScoreBias::kDense) {
      z += static_cast<Real>(input("bias", (h * p_.q + i) * p_.kv + j));
    }
    return z;
  }

  struct Running {
    Real maximum = -std::numeric_limits<Real>::infinity();
    Real sum = 0;
    Span accumulator;
  };

  void add_tile(Index b, Index h, Index i, const std::vector<Index>& keys, Running& run) {
    Span logits;
    std::vector<Index> seen;
    for (Index j : keys) {
      if (!emulated_visible(p_, how_, b, i, j)) continue;
      seen.push_back(j);
      logits.push_back(logit(b, h, i, j));
    }
    if (seen.empty()) return;
    const Real maximum = std::max(run.maximum, *std::max_element(logits.begin(), logits.end()));
    const Real factor = std::exp(run.maximum - maximum);
    Real sum = 0;
    for (Real& z : logits) {
      z = std::exp(z - maximum);
      sum += z;
      z = rounded(precision_.probability, z);
    }
    run.sum = run.sum * factor + sum;
    for (Index d = 0; d < p_.dim_v; ++d) {
      Span column;
      for (Index j : seen) {
        column.push_back(static_cast<Real>(input("v", k_at(b, j, h) * p_.dim_v + d)));
      }
      Real& target = run.accumulator[static_cast<std::size_t>(d)];
      if (how_.fault != EmulatedFault::kNoRescale && run.maximum > -1e300) target *= factor;
      target = added(target, dot(logits, column));
    }
    run.maximum = maximum;
  }

  void forward(Index b, Index h, Index i, std::size_t own) {
    const auto width = static_cast<std::size_t>(p_.dim_v);
    Running run{.accumulator = Span(width)};
    Span merged(width);
    Real merged_lse = -std::numeric_limits<Real>::infinity();
    for (std::size_t step = 0; step < keys_.size(); ++step) {
      const auto& block = keys_[(own + keys_.size() - step % keys_.size()) % keys_.size()];
      if (precision_.merge_blocks) run = Running{.accumulator = Span(width)};
      for (std::size_t first = 0; first < block.size();
           first += static_cast<std::size_t>(how_.tile)) {
        const std::size_t last =
            std::min(block.size(), first + static_cast<std::size_t>(how_.tile));
        add_tile(
            b, h, i,
            {block.begin() + static_cast<Index>(first), block.begin() + static_cast<Index>(last)},
            run);
      }
      if (precision_.merge_blocks && run.sum > 0) merge(run, merged, merged_lse);
    }
    if (!precision_.merge_blocks && run.sum > 0) {
      for (std::size_t d = 0; d < width; ++d) merged[d] = run.accumulator[d] / run.sum;
      merged_lse = run.maximum + std::log(run.sum);
    }
    for (std::size_t d = 0; d < width; ++d) {
      result_["out"][static_cast<std::size_t>(q_at(b, i, h)) * width + d] = merged[d];
    }
    result_["lse"][static_cast<std::size_t>(row_at(b, h, i))] = rounded(precision_.lse, merged_lse);
  }

  void merge(const Running& run, Span& merged, Real& merged_lse) {
    const Real block_lse = run.maximum + std::log(run.sum);
    const DType type = keys_.size() > 1 ? precision_.block_out : DType::kF64;
    const Real top = std::max(merged_lse, block_lse);
    const Real joint = top + std::log(std::exp(merged_lse - top) + std::exp(block_lse - top));
    for (std::size_t d = 0; d < merged.size(); ++d) {
      const Real part = rounded(type, run.accumulator[d] / run.sum);
      merged[d] = merged[d] * std::exp(merged_lse - joint) + part * std::exp(block_lse - joint);
    }
    merged_lse = rounded(precision_.lse, joint);
  }

  Real delta(Index b, Index h, Index i) {
    Real sum = 0;
    for (Index d = 0; d < p_.dim_v; ++d) {
      const Index at = q_at(b, i, h) * p_.dim_v + d;
      const auto out = static_cast<Real>(result_["out"][static_cast<std::size_t>(at)]);
      sum += static_cast<Real>(input("dout", at)) * rounded(precision_.saved_out, out);
    }
    if (how_.fault == EmulatedFault::kNoDlse) return sum;
    return sum - static_cast<Real>(input("dlse", row_at(b, h, i)));
  }

  // All blocks of one key/value head: for every pair of blocks one visit, as on a ring.
  void backward(Index b, Index g) {
    for (std::size_t step = 0; step < keys_.size(); ++step) {
      for (std::size_t a = 0; a < queries_.size(); ++a) {
        visit(b, g, queries_[a], keys_[(a + keys_.size() - step) % keys_.size()]);
      }
    }
  }

  struct Pair {
    Real p = 0;
    Real ds = 0;
  };

  Pair pair(Index b, Index h, Index i, Index j, Real row_delta) {
    Real t = 0;
    const Real z = logit(b, h, i, j, &t);
    const auto lse = static_cast<Real>(result_["lse"][static_cast<std::size_t>(row_at(b, h, i))]);
    const Real p = std::exp(z - lse);
    const Real dp = rounded(precision_.score, dot(row("dout", q_at(b, i, h), p_.dim_v),
                                                  row("v", k_at(b, j, h), p_.dim_v)));
    Real ds = p * (dp - row_delta);
    if (p_.bias == ScoreBias::kDense) {
      result_["dbias"][static_cast<std::size_t>((h * p_.q + i) * p_.kv + j)] =
          static_cast<Real>(
              result_["dbias"][static_cast<std::size_t>((h * p_.q + i) * p_.kv + j)]) +
          ds;
    }
    if (cap_ > 0 && how_.fault != EmulatedFault::kNoSoftcapDerivative) ds *= 1 - t * t;
    return {rounded(precision_.probability, p), rounded(precision_.score_gradient, ds)};
  }

  void visit(Index b, Index g, const std::vector<Index>& rows, const std::vector<Index>& keys) {
    // [key][row of any head in the group]
    std::vector<Span> p(keys.size()), ds(keys.size());
    std::vector<std::vector<Index>> from(keys.size());  // the query row of each
    for (Index h = g * group_; h < (g + 1) * group_; ++h) {
      for (Index i : rows) {
        const Real row_delta = delta(b, h, i);
        Span row_ds;
        std::vector<Index> seen;
        for (std::size_t j = 0; j < keys.size(); ++j) {
          if (!emulated_visible(p_, how_, b, i, keys[j])) continue;
          const Pair values = pair(b, h, i, keys[j], row_delta);
          row_ds.push_back(values.ds);
          seen.push_back(keys[j]);
          if (how_.fault == EmulatedFault::kMissingHead && h == (g + 1) * group_ - 1) continue;
          p[j].push_back(values.p);
          ds[j].push_back(values.ds);
          from[j].push_back(q_at(b, i, h));
        }
        add_dq(b, h, i, row_ds, seen);
      }
    }
    for (std::size_t j = 0; j < keys.size(); ++j) {
      const Index key = k_at(b, keys[j], g * group_);
      add_dkv("dv", "dout", key, p_.dim_v, p[j], from[j], 1);
      add_dkv("dk", "q", key, p_.dim, ds[j], from[j], scale_);
    }
  }

  void add_dq(Index b, Index h, Index i, const Span& ds, const std::vector<Index>& seen) {
    for (Index d = 0; d < p_.dim; ++d) {
      Span column;
      for (Index j : seen) {
        column.push_back(static_cast<Real>(input("k", k_at(b, j, h) * p_.dim + d)));
      }
      double& target = result_["dq"][static_cast<std::size_t>(q_at(b, i, h) * p_.dim + d)];
      target =
          rounded(precision_.query_gradient, static_cast<Real>(target) + dot(ds, column) * scale_);
    }
  }

  void add_dkv(const char* name, std::string_view operand_name, Index key, Index width,
               const Span& weights, const std::vector<Index>& rows, Real factor) {
    for (Index d = 0; d < width; ++d) {
      Span column;
      for (Index at : rows) {
        column.push_back(static_cast<Real>(input(operand_name, at * width + d)));
      }
      double& target = result_[name][static_cast<std::size_t>(key * width + d)];
      target = rounded(precision_.kv_gradient,
                       static_cast<Real>(target) + dot(weights, column) * factor);
    }
  }

  const Problem& p_;
  const NamedTensors& in_;
  const Precision& precision_;
  const Emulation& how_;
  Partition queries_, keys_;
  Real scale_ = 1, cap_ = 0;
  Index group_ = 1;
  NamedTensors result_;
};

}  // namespace

NamedTensors emulate_attention(const Problem& problem, const NamedTensors& inputs,
                               const Contract& contract, const Emulation& how) {
  if (contract.precision.accumulator == DType::kF64) {
    return Emulator<double>(problem, inputs, contract, how).run();
  }
  return Emulator<float>(problem, inputs, contract, how).run();
}

}  // namespace shardproof
