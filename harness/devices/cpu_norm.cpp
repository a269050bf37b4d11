// The kernels of LayerNorm and RMSNorm: two passes over a row, about its mean.
#include <cmath>

#include "harness/devices/cpu.h"

namespace shardproof {
namespace {

using cpu::Rows;

// What a row is subtracted by and multiplied with.
template <typename T>
struct RowNorm {
  RowNorm(const Rows<T>& moments, Index row, double epsilon)
      : mean(moments.read(row)[0]),
        factor(1 / std::sqrt(moments.read(row)[1] + static_cast<T>(epsilon))) {}

  T operator()(T x) const { return (x - mean) * factor; }

  T mean;
  T factor;
};

// One row's share of the means that its gradient is made of.
template <typename T>
struct Means {
  T gradient = 0;  // of dz * gamma
  T product = 0;   // of dz * gamma * the normalised x
};

template <typename T>
Means<T> means_of(const RowNorm<T>& normed, const T* x, const T* gamma, const T* dz, Index count) {
  Means<T> means;
  for (Index j = 0; j < count; ++j) {
    means.gradient += dz[j] * gamma[j];
    means.product += dz[j] * gamma[j] * normed(x[j]);
  }
  means.gradient /= static_cast<T>(count);
  means.product /= static_cast<T>(count);
  return means;
}

}  // namespace

void CpuDevice::row_moments(Norm norm, const View& x, const View& moments) {
  require(moments.shape == Shape({2, x.shape[0]}), "row_moments: two moments a row");
  cpu::in_precision(moments.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Rows<T> rows(x, scratch_, 0);
    const Rows<T> results(moments.transposed(0, 1), scratch_, 1);
    const T count = static_cast<T>(std::max<Index>(rows.count(), 1));
    for (Index i = 0; i < x.shape[0]; ++i) {
      const T* row = rows.read(i);
      T* result = results.open(i);
      result[0] = result[1] = 0;
      for (Index j = 0; j < rows.count() && norm == Norm::kLayer; ++j) result[0] += row[j];
      result[0] /= count;
      for (Index j = 0; j < rows.count(); ++j) {
        const T distance = row[j] - result[0];
        result[1] += distance * distance;
      }
      result[1] /= count;
      results.write(i);
    }
  });
}

void CpuDevice::normalize(double epsilon, const View& x, const View& moments, const View& gamma,
                          const View& beta, const View& z) {
  cpu::in_precision(moments.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Rows<T> rows(x, scratch_, 0);
    const Rows<T> moment_rows(moments.transposed(0, 1), scratch_, 1);
    const Rows<T> results(z, scratch_, 2);
    const T* factor = Rows<T>(gamma, scratch_, 3).read(0);
    const T* shift = beta.data ? Rows<T>(beta, scratch_, 4).read(0) : nullptr;
    for (Index i = 0; i < x.shape[0]; ++i) {
      const RowNorm<T> normed(moment_rows, i, epsilon);
      const T* row = rows.read(i);
      T* result = results.open(i);
      for (Index j = 0; j < rows.count(); ++j) {
        result[j] = normed(row[j]) * factor[j];
        if (shift) result[j] += shift[j];
      }
      results.write(i);
    }
  });
}

void CpuDevice::normalize_backward(Norm norm, double epsilon, const View& x, const View& moments,
                                   const View& gamma, const View& dz, const View& dx,
                                   const View& sums) {
  require(sums.shape == Shape({2, x.shape[1]}), "normalize_backward: two sums a column");
  fill(sums, 0);
  cpu::in_precision(sums.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Rows<T> rows(x, scratch_, 0);
    const Rows<T> moment_rows(moments.transposed(0, 1), scratch_, 1);
    const Rows<T> upstream(dz, scratch_, 2);
    const Rows<T> results(dx, scratch_, 3);
    const T* factor = Rows<T>(gamma, scratch_, 4).read(0);
    const Rows<T> of_gamma(sums.select(0, 0), scratch_, 5);
    const Rows<T> of_beta(sums.select(0, 1), scratch_, 6);
    T* gamma_sums = of_gamma.read(0);
    T* beta_sums = of_beta.read(0);
    const Index count = rows.count();
    for (Index i = 0; i < x.shape[0]; ++i) {
      const RowNorm<T> normed(moment_rows, i, epsilon);
      const T* row = rows.read(i);
      const T* up = upstream.read(i);
      T* result = results.open(i);
      Means<T> means = means_of(normed, row, factor, up, count);
      if (norm == Norm::kRms) means.gradient = 0;
      for (Index j = 0; j < count; ++j) {
        const T unit = normed(row[j]);
        gamma_sums[j] += up[j] * unit;
        beta_sums[j] += up[j];
        result[j] = normed.factor * (up[j] * factor[j] - means.gradient - unit * means.product);
      }
      results.write(i);
    }
    of_gamma.write(0);
    of_beta.write(0);
  });
}

}  // namespace shardproof
