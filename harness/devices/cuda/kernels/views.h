// Views as kernels take them: plain values with 64-bit strides, made from Views on the host.
#pragma once

#include "harness/devices/cuda/kernels/storage.h"
#include "harness/model/require.h"
#include "harness/run/tensor.h"

namespace shardproof::kernels {

struct Vector {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Index count = 0;
  Index stride = 0;

  template <typename T>
  SHARDPROOF_KERNEL T get(Index i) const {
    return load_element<T>(dtype, data, i * stride);
  }
  template <typename T>
  SHARDPROOF_KERNEL void set(Index i, T value) const {
    store_element(dtype, data, i * stride, value);
  }
};

struct Matrix {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Index rows = 0;
  Index columns = 0;
  Index row_stride = 0;
  Index column_stride = 0;

  template <typename T>
  SHARDPROOF_KERNEL T get(Index i, Index j) const {
    return load_element<T>(dtype, data, i * row_stride + j * column_stride);
  }
  template <typename T>
  SHARDPROOF_KERNEL void set(Index i, Index j, T value) const {
    store_element(dtype, data, i * row_stride + j * column_stride, value);
  }
};

// The elements of two views of one shape in row-major order.
struct Pairs {
  std::byte* from = nullptr;
  std::byte* to = nullptr;
  DType from_dtype = DType::kF32;
  DType to_dtype = DType::kF32;
  Index count = 0;
  int rank = 0;
  Index extents[Shape::kMaximumRank] = {};
  Index from_strides[Shape::kMaximumRank] = {};
  Index to_strides[Shape::kMaximumRank] = {};

  struct Places {
    Index from = 0;
    Index to = 0;
  };
  SHARDPROOF_KERNEL Places places(Index flat) const {
    Places at;
    for (int d = rank - 1; d >= 0; --d) {
      const Index rest = d == 0 ? flat : flat % extents[d];
      flat = d == 0 ? 0 : flat / extents[d];
      at.from += rest * from_strides[d];
      at.to += rest * to_strides[d];
    }
    return at;
  }
};

// A view of one dimension; all zeros where there is none.
inline Vector vector_of(const View& view) {
  if (view.data == nullptr) return {};
  require(view.shape.rank() == 1, "a kernel wants a vector");
  return {view.data, view.dtype, view.shape[0], view.strides[0]};
}

inline Matrix matrix_of(const View& view) {
  if (view.data == nullptr) return {};
  require(view.shape.rank() == 2, "a kernel wants a matrix");
  return {view.data, view.dtype, view.shape[0], view.shape[1], view.strides[0], view.strides[1]};
}

// Dimensions that are one in both views become one, so that dense ones have a single dimension.
inline Pairs pairs_of(const View& from, const View& to) {
  require(from.shape == to.shape, "element-wise kernels take views of one shape");
  Pairs pairs{from.data, to.data, from.dtype, to.dtype, from.elements()};
  for (int d = 0; d < from.shape.rank(); ++d) {
    const auto u = static_cast<std::size_t>(d);
    const Index extent = from.shape[d];
    if (extent == 1) continue;
    const int last = pairs.rank - 1;
    if (last >= 0 && pairs.from_strides[last] == extent * from.strides[u] &&
        pairs.to_strides[last] == extent * to.strides[u]) {
      pairs.extents[last] *= extent;
      pairs.from_strides[last] = from.strides[u];
      pairs.to_strides[last] = to.strides[u];
      continue;
    }
    pairs.extents[pairs.rank] = extent;
    pairs.from_strides[pairs.rank] = from.strides[u];
    pairs.to_strides[pairs.rank] = to.strides[u];
    ++pairs.rank;
  }
  return pairs;
}

}  // namespace shardproof::kernels
