// The kernels of the loss over a vocabulary.
#include <cmath>
#include <limits>

#include "harness/devices/cpu.h"

namespace shardproof {
namespace {

using cpu::Rows;

// The column of a row whose words begin at `first` that holds the label, or -1.
template <typename T>
Index column_of(T label, Index first, Index columns) {
  const Index column = static_cast<Index>(label) - first;
  return label >= 0 && column >= 0 && column < columns ? column : -1;
}

}  // namespace

void CpuDevice::row_maxima(const View& from, const View& maxima) {
  cpu::in_precision(maxima.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Rows<T> rows(from, scratch_, 0);
    const Rows<T> results(maxima, scratch_, 1);
    T* largest = results.open(0);
    for (Index i = 0; i < from.shape[0]; ++i) {
      const T* row = rows.read(i);
      largest[i] = -std::numeric_limits<T>::infinity();
      for (Index j = 0; j < rows.count(); ++j) {
        if (row[j] > largest[i] || std::isnan(row[j])) largest[i] = row[j];
      }
    }
    results.write(0);
  });
}

void CpuDevice::word_sums(const View& logits, Index first, const View& labels, const View& maxima,
                          const View& sums) {
  require(sums.shape == Shape({3, logits.shape[0]}), "word_sums: three sums a row");
  cpu::in_precision(sums.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Rows<T> rows(logits, scratch_, 0);
    const Rows<T> label_rows(labels, scratch_, 1);
    const Rows<T> maximum_rows(maxima, scratch_, 2);
    const Rows<T> exponentials(sums.select(0, 0), scratch_, 3);
    const Rows<T> own(sums.select(0, 1), scratch_, 4);
    const Rows<T> totals(sums.select(0, 2), scratch_, 5);
    const T* label = label_rows.read(0);
    const T* maximum = maximum_rows.read(0);
    T* exponential = exponentials.open(0);
    T* picked = own.open(0);
    T* total = totals.open(0);
    for (Index i = 0; i < logits.shape[0]; ++i) {
      const T* row = rows.read(i);
      const Index column = column_of(label[i], first, rows.count());
      exponential[i] = total[i] = 0;
      for (Index j = 0; j < rows.count(); ++j) {
        exponential[i] += std::exp(row[j] - maximum[i]);
        total[i] += row[j];
      }
      picked[i] = column < 0 ? T{0} : row[column];
    }
    exponentials.write(0);
    own.write(0);
    totals.write(0);
  });
}

void CpuDevice::word_losses(const TargetRule& rule, const View& labels, const View& maxima,
                            const View& sums, const View& lse, const View& loss,
                            const View& totals) {
  cpu::in_precision(lse.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Rows<T> sum_rows(sums, scratch_, 0);
    const Rows<T> label_rows(labels, scratch_, 1);
    const Rows<T> maximum_rows(maxima, scratch_, 2);
    const Rows<T> lse_rows(lse, scratch_, 3);
    const Rows<T> losses(loss, scratch_, 4);
    const Rows<T> total_rows(totals, scratch_, 5);
    const T smoothing = static_cast<T>(rule.smoothing);
    const T words = static_cast<T>(rule.words);
    const Index tokens = lse_rows.count();
    const T* label = label_rows.read(0);
    const T* maximum = maximum_rows.read(0);
    T* log_sum = lse_rows.open(0);
    const T* exponential = sum_rows.read(0);
    for (Index i = 0; i < tokens; ++i) log_sum[i] = maximum[i] + std::log(exponential[i]);
    T* result = losses.open(0);
    const T* own = sum_rows.read(1);
    for (Index i = 0; i < tokens; ++i) result[i] = log_sum[i] - (1 - smoothing) * own[i];
    const T* all = sum_rows.read(2);
    T* total = total_rows.open(0);
    total[0] = total[1] = 0;
    for (Index i = 0; i < tokens; ++i) {
      if (smoothing != 0) result[i] -= smoothing * (all[i] / words);
      if (label[i] < 0) result[i] = 0;
      total[0] += result[i];
      total[1] += label[i] < 0 ? T{0} : T{1};
    }
    lse_rows.write(0);
    losses.write(0);
    total_rows.write(0);
  });
}

void CpuDevice::word_gradients(const TargetRule& rule, const View& logits, Index first,
                               const View& labels, const View& lse, const View& dloss,
                               const View& dmean, const View& dlogits) {
  cpu::in_precision(lse.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Rows<T> rows(logits, scratch_, 0);
    const Rows<T> label_rows(labels, scratch_, 1);
    const Rows<T> lse_rows(lse, scratch_, 2);
    const Rows<T> upstream(dloss, scratch_, 3);
    const Rows<T> gradients(dlogits, scratch_, 4);
    const T smoothing = static_cast<T>(rule.smoothing);
    const T share = smoothing / static_cast<T>(rule.words);
    const T mean_factor = *Rows<T>(dmean, scratch_, 5).read(0);
    const T* label = label_rows.read(0);
    const T* log_sum = lse_rows.read(0);
    const T* factor = upstream.read(0);
    for (Index i = 0; i < logits.shape[0]; ++i) {
      const T* row = rows.read(i);
      T* gradient = gradients.open(i);
      const Index column = column_of(label[i], first, rows.count());
      const T weight = label[i] < 0 ? T{0} : factor[i] + mean_factor;
      for (Index j = 0; j < rows.count(); ++j) {
        const T own = j == column ? 1 - smoothing : T{0};
        const T difference = std::exp(row[j] - log_sum[i]) - own - share;
        gradient[j] = label[i] < 0 ? T{0} : difference * weight;
      }
      gradients.write(i);
    }
  });
}

}  // namespace shardproof
