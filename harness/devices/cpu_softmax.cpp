#include <cmath>
#include <cstdlib>
#include <limits>

#include "harness/devices/cpu.h"

namespace shardproof {
namespace {

using cpu::Rows;
using cpu::Scratch;

template <typename T>
constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();

// The logits of one row in place of its scores: steps 1 to 3 of ScoreRule. Where there is a softcap
// and `cap_slope` is not null, that receives the derivative of the cap.
template <typename T>
void logits(const ScoreRule& rule, Index query, const T* bias, T* scores, T* cap_slope,
            Index keys) {
  const T scale = static_cast<T>(rule.scale);
  for (Index j = 0; j < keys; ++j) scores[j] *= scale;
  if (rule.softcap != 0) {
    const T cap = static_cast<T>(rule.softcap);
    for (Index j = 0; j < keys; ++j) {
      const T bent = std::tanh(scores[j] / cap);
      scores[j] = cap * bent;
      if (cap_slope != nullptr) cap_slope[j] = 1 - bent * bent;
    }
  }
  if (rule.alibi_slope != 0) {
    const T slope = static_cast<T>(rule.alibi_slope);
    const Index position = rule.queries.at(query);
    for (Index j = 0; j < keys; ++j) {
      scores[j] -= slope * static_cast<T>(std::abs(position - rule.keys.at(j)));
    }
  }
  if (bias != nullptr) {
    for (Index j = 0; j < keys; ++j) scores[j] += bias[j];
  }
}

// scores: in logits, out exp(logit - maximum), 0 where hidden, whatever the logit holds.
template <typename T>
void exponentiate(const std::uint8_t* visible, T maximum, T* scores, Index keys) {
  for (Index j = 0; j < keys; ++j) {
    scores[j] = visible[j] != 0 ? std::exp(scores[j] - maximum) : T{0};
  }
}

// Sums and maxima run in lanes, which the compiler may not introduce by itself: it would change the
// order of the additions.
constexpr Index kLanes = 16;

template <typename T>
T sum_of(const T* values, Index count) {
  T lanes[kLanes] = {};
  Index first = 0;
  for (; first + kLanes <= count; first += kLanes) {
    for (Index l = 0; l < kLanes; ++l) lanes[l] += values[first + l];
  }
  T sum = 0;
  for (T lane : lanes) sum += lane;
  for (; first < count; ++first) sum += values[first];
  return sum;
}

// The largest of `start` and the visible values; NaN when one of them is NaN.
template <typename T>
T largest_of(T start, const std::uint8_t* visible, const T* values, Index count) {
  const auto larger = [&](T a, Index j) {
    const T b = visible[j] != 0 ? values[j] : kMinusInfinity<T>;
    return (a < b) | (b != b) ? b : a;
  };
  T lanes[kLanes];
  for (T& lane : lanes) lane = start;
  Index first = 0;
  for (; first + kLanes <= count; first += kLanes) {
    for (Index l = 0; l < kLanes; ++l) lanes[l] = larger(lanes[l], first + l);
  }
  T largest = start;
  for (T lane : lanes) largest = (largest < lane) | (lane != lane) ? lane : largest;
  for (; first < count; ++first) largest = larger(largest, first);
  return largest;
}

template <typename T>
void softmax_step(const View& scores, const Visibility& visible, const View& bias,
                  const ScoreRule& rule, DType probability, const View& maximum,
                  const View& normalizer, const View& accumulator, Scratch& scratch) {
  const Rows<T> score_rows(scores, scratch, 0);
  const Rows<T> maxima(maximum, scratch, 1);
  const Rows<T> sums(normalizer, scratch, 2);
  const Rows<T> outs(accumulator, scratch, 3);
  T* running_maximum = maxima.read(0);
  T* running_sum = sums.read(0);
  const Index keys = visible.keys;
  for (Index i = 0; i < visible.queries; ++i) {
    const std::uint8_t* seen = visible.row(i);
    T* row = score_rows.read(i);
    const T* added = bias.data == nullptr ? nullptr : Rows<T>(bias, scratch, 4).read(i);
    logits<T>(rule, i, added, row, nullptr, keys);
    const T largest = largest_of(running_maximum[i], seen, row, keys);
    if (largest == kMinusInfinity<T>) {  // nothing visible so far
      std::fill(row, row + keys, T{0});
      score_rows.write(i);
      continue;
    }
    exponentiate(seen, largest, row, keys);
    const T rescale = std::exp(running_maximum[i] - largest);
    running_sum[i] = running_sum[i] * rescale + sum_of(row, keys);
    running_maximum[i] = largest;
    if (rescale != 1) {
      T* out = outs.read(i);
      for (Index d = 0; d < outs.count(); ++d) out[d] *= rescale;
      outs.write(i);
    }
    if (!cpu::is_stored_as<T>(probability)) cpu::round_elements(probability, row, keys);
    score_rows.write(i);
  }
  maxima.write(0);
  sums.write(0);
}

template <typename T>
void recompute(const View& scores, const Visibility& visible, const View& bias,
               const ScoreRule& rule, const View& lse, const View& cap_slope, Scratch& scratch) {
  const Rows<T> score_rows(scores, scratch, 0);
  const Rows<T> slope_rows(cap_slope, scratch, 1);
  const Rows<T> totals(lse, scratch, 2);
  const T* total = totals.read(0);
  const Index keys = visible.keys;
  for (Index i = 0; i < visible.queries; ++i) {
    T* row = score_rows.read(i);
    T* slope = slope_rows.open(i);
    if (rule.softcap == 0) std::fill(slope, slope + keys, T{1});
    const T* added = bias.data == nullptr ? nullptr : Rows<T>(bias, scratch, 3).read(i);
    logits<T>(rule, i, added, row, slope, keys);
    exponentiate(visible.row(i), total[i], row, keys);
    score_rows.write(i);
    slope_rows.write(i);
  }
}

// Which type a kernel computes in: that of the scores or accumulators it is given.
template <typename Compute>
void in_precision_of(const View& view, Compute&& compute) {
  cpu::in_precision(view.dtype, compute);
}

}  // namespace

void CpuDevice::online_softmax(const View& scores, const Visibility& visible, const View& bias,
                               const ScoreRule& rule, DType probability, const View& maximum,
                               const View& normalizer, const View& accumulator) {
  require(scores.shape == Shape({visible.queries, visible.keys}), "online_softmax: shapes agree");
  in_precision_of(scores, [&](auto zero) {
    softmax_step<decltype(zero)>(scores, visible, bias, rule, probability, maximum, normalizer,
                                 accumulator, scratch_);
  });
}

void CpuDevice::finish_softmax(const View& accumulator, const View& maximum, const View& normalizer,
                               const View& out, const View& lse) {
  in_precision_of(accumulator, [&](auto zero) {
    using T = decltype(zero);
    const Rows<T> sums(accumulator, scratch_, 0);
    const Rows<T> maxima(maximum, scratch_, 1);
    const Rows<T> normalizers(normalizer, scratch_, 2);
    const Rows<T> outs(out, scratch_, 3);
    const Rows<T> totals(lse, scratch_, 4);
    const T* largest = maxima.read(0);
    const T* divisor = normalizers.read(0);
    T* total = totals.open(0);
    for (Index i = 0; i < accumulator.shape[0]; ++i) {
      const bool empty = largest[i] == kMinusInfinity<T>;
      const T* sum = sums.read(i);
      T* row = outs.open(i);
      for (Index d = 0; d < sums.count(); ++d) row[d] = empty ? T{0} : sum[d] / divisor[i];
      outs.write(i);
      total[i] = empty ? kMinusInfinity<T> : largest[i] + std::log(divisor[i]);
    }
    totals.write(0);
  });
}

void CpuDevice::row_delta(const View& dout, const View& out, const View& dlse, const View& delta) {
  in_precision_of(delta, [&](auto zero) {
    using T = decltype(zero);
    const Rows<T> gradients(dout, scratch_, 0);
    const Rows<T> outs(out, scratch_, 1);
    const Rows<T> lse_gradients(dlse.data == nullptr ? delta : dlse, scratch_, 2);
    const Rows<T> deltas(delta, scratch_, 3);
    const T* lse_gradient = dlse.data == nullptr ? nullptr : lse_gradients.read(0);
    T* result = deltas.open(0);
    for (Index i = 0; i < dout.shape[0]; ++i) {
      const T* gradient = gradients.read(i);
      const T* row = outs.read(i);
      T sum = 0;
      for (Index d = 0; d < outs.count(); ++d) sum += gradient[d] * row[d];
      result[i] = lse_gradient == nullptr ? sum : sum - lse_gradient[i];
    }
    deltas.write(0);
  });
}

void CpuDevice::probabilities(const View& scores, const Visibility& visible, const View& bias,
                              const ScoreRule& rule, const View& lse, const View& cap_slope) {
  require(scores.shape == Shape({visible.queries, visible.keys}), "probabilities: shapes agree");
  in_precision_of(scores, [&](auto zero) {
    recompute<decltype(zero)>(scores, visible, bias, rule, lse, cap_slope, scratch_);
  });
}

void CpuDevice::score_gradients(const View& probability, const View& delta, DType rounding,
                                const View& gradient, const View& cap_slope) {
  in_precision_of(gradient, [&](auto zero) {
    using T = decltype(zero);
    const Rows<T> probability_rows(probability, scratch_, 0);
    const Rows<T> gradient_rows(gradient, scratch_, 1);
    const Rows<T> slope_rows(cap_slope, scratch_, 2);
    const Rows<T> deltas(delta, scratch_, 3);
    const T* shift = deltas.read(0);
    const Index keys = gradient_rows.count();
    for (Index i = 0; i < gradient.shape[0]; ++i) {
      const T* p = probability_rows.read(i);
      T* row = gradient_rows.read(i);
      T* scaled = slope_rows.read(i);
      for (Index j = 0; j < keys; ++j) {
        const bool seen = p[j] != 0;  // hidden elements may meet NaN in dP and in the slope
        row[j] = seen ? p[j] * (row[j] - shift[i]) : T{0};
        scaled[j] = seen ? row[j] * scaled[j] : T{0};
      }
      if (!cpu::is_stored_as<T>(rounding)) cpu::round_elements(rounding, scaled, keys);
      gradient_rows.write(i);
      slope_rows.write(i);
    }
  });
}

void CpuDevice::drop(const Dropout& rule, const View& weights) {
  in_precision_of(weights, [&](auto zero) {
    using T = decltype(zero);
    const Rows<T> rows(weights, scratch_, 0);
    const T factor = static_cast<T>(rule.factor);
    for (Index i = 0; i < weights.shape[0]; ++i) {
      T* row = rows.read(i);
      const Index query = rule.queries.at(i);
      for (Index j = 0; j < rows.count(); ++j) {
        const bool kept =
            is_kept(rule.seed, rule.probability, rule.batch, rule.head, query, rule.keys.at(j));
        row[j] = kept ? factor * row[j] : T{0};
      }
      rows.write(i);
    }
  });
}

}  // namespace shardproof
