// Element-wise kernels, and sums of columns. No thread needs another one's result.
#pragma once

#include "harness/devices/cuda/kernels/views.h"

namespace shardproof::kernels {

enum class ElementOperation { kCopy, kFill, kAdd, kDivide, kAtLeast, kSquareRoot, kRound };

// to = operation(from, to) with `number` or `dtype` where the operation wants one.
template <typename T>
struct Elementwise {
  static constexpr bool kMeets = false;
  Pairs pairs;
  ElementOperation operation = ElementOperation::kCopy;
  T number = 0;
  DType dtype = DType::kF64;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    for_all(block, pairs.count, [&](Index flat) {
      const Pairs::Places at = pairs.places(flat);
      store_element(pairs.to_dtype, pairs.to, at.to, result(at));
    });
  }

  SHARDPROOF_KERNEL T result(Pairs::Places at) const {
    switch (operation) {
      case ElementOperation::kCopy:
        return from(at);
      case ElementOperation::kFill:
        return number;
      case ElementOperation::kAdd:
        return to(at) + from(at);
      case ElementOperation::kDivide:
        return to(at) / from(at);
      case ElementOperation::kAtLeast:  // NaN stays
        return from(at) < number ? number : from(at);
      case ElementOperation::kSquareRoot:
        return std::sqrt(from(at));
      case ElementOperation::kRound:
        break;
    }
    return rounded(dtype, from(at));
  }

  SHARDPROOF_KERNEL T from(Pairs::Places at) const {
    return load_element<T>(pairs.from_dtype, pairs.from, at.from);
  }
  SHARDPROOF_KERNEL T to(Pairs::Places at) const {
    return load_element<T>(pairs.to_dtype, pairs.to, at.to);
  }
};

// Entries of dimension 0, `inner` elements each, where `keep` is 0 are not read and become 0.
template <typename T>
struct CopyKept {
  static constexpr bool kMeets = false;
  Pairs pairs;
  const std::uint8_t* keep = nullptr;
  Index inner = 1;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    for_all(block, pairs.count, [&](Index flat) {
      const Pairs::Places at = pairs.places(flat);
      const bool kept = keep[flat / inner] != 0;
      const T value = kept ? load_element<T>(pairs.from_dtype, pairs.from, at.from) : T{0};
      store_element(pairs.to_dtype, pairs.to, at.to, value);
    });
  }
};

// target [rows, n] += bias [n]
template <typename T>
struct AddRow {
  static constexpr bool kMeets = false;
  Vector bias;
  Matrix target;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    for_elements(block, target.rows, target.columns,
                 [&](Index i, Index j) { target.set(i, j, target.get<T>(i, j) + bias.get<T>(j)); });
  }
};

// sums [n] of the columns of `from` [rows, n]; a thread adds a column from the top.
template <typename T>
struct ColumnSums {
  static constexpr bool kMeets = false;
  Matrix from;
  Vector sums;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    for_all(block, from.columns, [&](Index j) {
      T sum = 0;
      for (Index i = 0; i < from.rows; ++i) sum += from.get<T>(i, j);
      sums.set(j, sum);
    });
  }
};

// Pairs of elements of a token turned, [batch, tokens, heads, dim]. cosines and sines [tokens,
// dim / 2]: the sine's sign says which way.
template <typename T>
struct Rotate {
  static constexpr bool kMeets = false;
  std::byte* from = nullptr;
  std::byte* to = nullptr;
  DType from_dtype = DType::kF32;
  DType to_dtype = DType::kF32;
  Index extents[4] = {};
  Index from_strides[4] = {};
  Index to_strides[4] = {};
  const double* turns = nullptr;  // [tokens, dim / 2, 2]: cosine, sine

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    const Index half = extents[3] / 2;
    for_all(block, extents[0] * extents[1] * extents[2] * half, [&](Index flat) {
      const Index pair = flat % half;
      const Index head = flat / half % extents[2];
      const Index token = flat / half / extents[2] % extents[1];
      const Index batch = flat / half / extents[2] / extents[1];
      const T cosine = static_cast<T>(turns[2 * (token * half + pair)]);
      const T sine = static_cast<T>(turns[2 * (token * half + pair) + 1]);
      const Index a = place(from_strides, batch, token, head, 2 * pair);
      const T first = load_element<T>(from_dtype, from, a);
      const T second = load_element<T>(from_dtype, from, a + from_strides[3]);
      const Index b = place(to_strides, batch, token, head, 2 * pair);
      store_element(to_dtype, to, b, cosine * first - sine * second);
      store_element(to_dtype, to, b + to_strides[3], sine * first + cosine * second);
    });
  }

  SHARDPROOF_KERNEL static Index place(const Index* strides, Index batch, Index token, Index head,
                                       Index element) {
    return batch * strides[0] + token * strides[1] + head * strides[2] + element * strides[3];
  }
};

}  // namespace shardproof::kernels
