#include "reference/attention_emulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reference/attention_emulator_forward.h"
#include "reference/attention_emulator_rotary.h"

namespace shardproof {
namespace {

template <class Real>
class Emulator : private EmulatedForward<Real> {
 public:
  using EmulatedForward<Real>::EmulatedForward;

  NamedTensors run() {
    make("out", p_.batch * p_.q * p_.heads * p_.dim_v);
    make("lse", p_.batch * p_.heads * p_.q);
    make("dq", p_.batch * p_.q * p_.heads * p_.dim);
    make("dk", p_.batch * p_.kv * p_.kv_heads * p_.dim);
    make("dv", p_.batch * p_.kv * p_.kv_heads * p_.dim_v);
    if (p_.bias == ScoreBias::kDense) make("dbias", p_.heads * p_.q * p_.kv);
    if (p_.sink) make("dsink", p_.heads);
    for (Index b = 0; b < p_.batch; ++b) {
      for (Index h = 0; h < p_.heads; ++h) {
        for (std::size_t a = 0; a < queries_.size(); ++a) {
          for (Index i : queries_[a]) forward(b, h, i, a);
        }
      }
      for (Index g = 0; g < p_.kv_heads; ++g) backward(b, g);
      for (Index h = 0; h < p_.heads && p_.sink; ++h) add_sink_gradient(b, h);
    }
    if (p_.rotary > 0) {
      const bool fused = (how_.seed & 4) != 0;
      const DType sums = precision_.accumulator;
      emulate_turning<Real>(p_, Side::kQueries, sums, fused, true, result_["dq"]);
      emulate_turning<Real>(p_, Side::kKeys, sums, fused, true, result_["dk"]);
    }
    for (const char* name : {"out", "dq", "dk", "dv", "dbias", "dsink"}) {
      for (double& value : result_[name]) value = round_to(precision_.io, value);
    }
    if (p_.bias != ScoreBias::kDense) result_.erase("dbias");
    if (!p_.sink) result_.erase("dsink");
    return std::move(result_);
  }

 private:
  using Base = EmulatedForward<Real>;
  using Span = typename Base::Span;
  using Base::added;
  using Base::cap_;
  using Base::dot;
  using Base::dropped;
  using Base::forward;
  using Base::group_;
  using Base::how_;
  using Base::input;
  using Base::k_at;
  using Base::keys_;
  using Base::logit;
  using Base::p_;
  using Base::precision_;
  using Base::q_at;
  using Base::queries_;
  using Base::result_;
  using Base::rounded;
  using Base::row;
  using Base::row_at;
  using Base::scale_;
  using Base::stored_weight;

  void make(const char* name, Index size) { result_[name].resize(static_cast<std::size_t>(size)); }

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

  // As the gradient of a key without a value, in an order of its own.
  void add_sink_gradient(Index b, Index h) {
    double& sum = result_["dsink"][static_cast<std::size_t>(h)];
    for (const auto& block : queries_) {
      Real part = 0;
      for (Index i : block) {
        const auto lse =
            static_cast<Real>(result_["lse"][static_cast<std::size_t>(row_at(b, h, i))]);
        const Real p = std::exp(static_cast<Real>(input("sink", h)) - lse);
        part = added(part, p * (0 - delta(b, h, i)));
      }
      sum = added(static_cast<Real>(sum), part);
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
    Real ds = p * (dropped(b, h, i, j, dp) - row_delta);
    if (p_.bias == ScoreBias::kDense) {
      result_["dbias"][static_cast<std::size_t>((h * p_.q + i) * p_.kv + j)] =
          static_cast<Real>(
              result_["dbias"][static_cast<std::size_t>((h * p_.q + i) * p_.kv + j)]) +
          ds;
    }
    if (cap_ > 0 && how_.fault != EmulatedFault::kNoSoftcapDerivative) ds *= 1 - t * t;
    return {stored_weight(b, h, i, j, p), rounded(precision_.score_gradient, ds)};
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
};

}  // namespace

NamedTensors emulate_attention(const Problem& problem, const NamedTensors& inputs,
                               const Contract& contract, const Emulation& how) {
  const DType stored = contract.precision.middle;
  const bool fused = (how.seed & 8) != 0;
  if (contract.precision.accumulator == DType::kF64) {
    const auto turned = emulated_turned_inputs<double>(problem, inputs, stored, fused);
    return Emulator<double>(problem, turned, contract, how).run();
  }
  const auto turned = emulated_turned_inputs<float>(problem, inputs, stored, fused);
  return Emulator<float>(problem, turned, contract, how).run();
}

}  // namespace shardproof
