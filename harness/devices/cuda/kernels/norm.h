// LayerNorm and RMSNorm (Ba et al. 2016; Zhang & Sennrich 2019). A row's moments are taken in two
// passes, about its mean.
#pragma once

#include "harness/devices/cuda/kernels/views.h"

namespace shardproof::kernels {

// moments [2, n] of the rows of x [n, m]: the mean (0 for RMS), and the mean square about it.
template <typename T>
struct RowMoments {
  static constexpr bool kMeets = true;
  bool centred = false;
  Matrix x;
  Matrix moments;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    const T count = static_cast<T>(x.columns > 0 ? x.columns : 1);
    for_rows(block, x.rows, [&](Index i) {
      T mine = 0;
      if (centred) for_mine(block, x.columns, [&](Index j) { mine += x.get<T>(i, j); });
      const T mean = over_block(block, mine, Sum()) / count;
      mine = 0;
      for_mine(block, x.columns, [&](Index j) {
        const T distance = x.get<T>(i, j) - mean;
        mine += distance * distance;
      });
      const T mean_square = over_block(block, mine, Sum()) / count;
      if (block.thread() != 0) return;
      moments.set(0, i, mean);
      moments.set(1, i, mean_square);
    });
  }
};

// A row's mean and what distances from it are multiplied by.
template <typename T>
struct RowScale {
  SHARDPROOF_KERNEL RowScale(const Matrix& moments, Index row, T epsilon)
      : mean(moments.get<T>(0, row)), factor(T{1} / std::sqrt(moments.get<T>(1, row) + epsilon)) {}

  SHARDPROOF_KERNEL T unit(T x) const { return (x - mean) * factor; }

  T mean;
  T factor;
};

// z = (x - mean) / sqrt(mean square + epsilon) * gamma + beta
template <typename T>
struct Normalize {
  static constexpr bool kMeets = false;
  T epsilon = 0;
  Matrix x;
  Matrix moments;
  Vector gamma;
  Vector beta;  // or no data
  Matrix z;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    for_rows(block, x.rows, [&](Index i) {
      const RowScale<T> scale(moments, i, epsilon);
      for_mine(block, x.columns, [&](Index j) {
        T value = scale.unit(x.get<T>(i, j)) * gamma.get<T>(j);
        if (beta.data != nullptr) value += beta.get<T>(j);
        z.set(i, j, value);
      });
    });
  }
};

// sums [2, m] over the rows: of dz times the normalised x, and of dz.
template <typename T>
struct NormalizeSums {
  static constexpr bool kMeets = false;
  T epsilon = 0;
  Matrix x;
  Matrix moments;
  Matrix dz;
  Matrix sums;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    for_all(block, x.columns, [&](Index j) {
      T of_gamma = 0;
      T of_beta = 0;
      for (Index i = 0; i < x.rows; ++i) {
        const T gradient = dz.get<T>(i, j);
        of_gamma += gradient * RowScale<T>(moments, i, epsilon).unit(x.get<T>(i, j));
        of_beta += gradient;
      }
      sums.set(0, j, of_gamma);
      sums.set(1, j, of_beta);
    });
  }
};

// dx = factor (g - mean(g) - unit mean(g unit)), g = dz gamma; without mean(g) for RMS.
template <typename T>
struct NormalizeBackward {
  static constexpr bool kMeets = true;
  bool centred = false;
  T epsilon = 0;
  Matrix x;
  Matrix moments;
  Vector gamma;
  Matrix dz;
  Matrix dx;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    const T count = static_cast<T>(x.columns);
    for_rows(block, x.rows, [&](Index i) {
      const RowScale<T> scale(moments, i, epsilon);
      T plain = 0;
      T product = 0;
      for_mine(block, x.columns, [&](Index j) {
        const T gradient = dz.get<T>(i, j) * gamma.get<T>(j);
        plain += gradient;
        product += gradient * scale.unit(x.get<T>(i, j));
      });
      const T mean_plain = centred ? over_block(block, plain, Sum()) / count : T{0};
      const T mean_product = over_block(block, product, Sum()) / count;
      for_mine(block, x.columns, [&](Index j) {
        const T gradient = dz.get<T>(i, j) * gamma.get<T>(j);
        const T unit = scale.unit(x.get<T>(i, j));
        dx.set(i, j, scale.factor * (gradient - mean_plain - unit * mean_product));
      });
    });
  }
};

}  // namespace shardproof::kernels
