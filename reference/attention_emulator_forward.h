// For tests only: the forward pass of the emulated attention, row by row.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/attention_emulator_arithmetic.h"

namespace shardproof {

// Real: the accumulator's and softmax's type, float or double.
template <class Real>
class EmulatedForward : protected EmulatedArithmetic<Real> {
 public:
  EmulatedForward(const Problem& problem, const NamedTensors& inputs, const Contract& contract,
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
    factor_ = static_cast<Real>(dropout_factor(p_));
    group_ = p_.heads / p_.kv_heads;
  }

 protected:
  using Base = EmulatedArithmetic<Real>;
  using Span = typename Base::Span;
  using Base::added;
  using Base::dot;
  using Base::rounded;

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

  Real dropped(Index b, Index h, Index i, Index j, Real value) const {
    if (p_.dropout == 0) return value;
    return is_kept(p_.seed, p_.dropout, b, h, i, j) ? value * factor_ : Real{0};
  }

  // P on its way into a product: rounded before or after dropout.
  Real stored_weight(Index b, Index h, Index i, Index j, Real p) const {
    if ((how_.seed & 2) != 0) return rounded(precision_.probability, dropped(b, h, i, j, p));
    return dropped(b, h, i, j, rounded(precision_.probability, p));
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
    for (std::size_t n = 0; n < seen.size(); ++n) {
      const Real p = std::exp(logits[n] - maximum);
      sum += p;
      logits[n] = stored_weight(b, h, i, seen[n], p);
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

  // What a softmax starts from that takes the sink first.
  Running sink_alone(Index h) const {
    return {.maximum = static_cast<Real>(input("sink", h)),
            .sum = 1,
            .accumulator = Span(static_cast<std::size_t>(p_.dim_v))};
  }

  // The sink as the last key.
  void add_sink(Index h, Running& run) const {
    const auto sink = static_cast<Real>(input("sink", h));
    const Real maximum = std::max(run.maximum, sink);
    const Real factor = std::exp(run.maximum - maximum);
    run.sum = run.sum * factor + std::exp(sink - maximum);
    for (Real& value : run.accumulator) value *= factor;
    run.maximum = maximum;
  }

  void forward(Index b, Index h, Index i, std::size_t own) {
    const auto width = static_cast<std::size_t>(p_.dim_v);
    const bool sink_last = (how_.seed & 1) != 0;
    const bool sink_everywhere = how_.fault == EmulatedFault::kSinkInEveryBlock;
    Running run{.accumulator = Span(width)};
    if (p_.sink && !sink_last) run = sink_alone(h);
    Span merged(width);
    Real merged_lse = -std::numeric_limits<Real>::infinity();
    for (std::size_t step = 0; step < keys_.size(); ++step) {
      const auto& block = keys_[(own + keys_.size() - step % keys_.size()) % keys_.size()];
      if (precision_.merge_blocks) run = Running{.accumulator = Span(width)};
      if (sink_everywhere) run = sink_alone(h);
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
    if (precision_.merge_blocks && p_.sink && !sink_everywhere) {
      merge(sink_alone(h), merged, merged_lse);
    }
    if (!precision_.merge_blocks && p_.sink && sink_last) add_sink(h, run);
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

  const Problem& p_;
  const NamedTensors& in_;
  const Precision& precision_;
  const Emulation& how_;
  Partition queries_, keys_;
  Real scale_ = 1, cap_ = 0, factor_ = 1;
  Index group_ = 1;
  NamedTensors result_;
};

}  // namespace shardproof
