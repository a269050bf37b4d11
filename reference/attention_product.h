// The one product that the attention reference is made of: c[i, :] += sum_k a(i, k) b[k, :], with
// rows of b and c contiguous and any strides of a, so that it serves A B and A^T B alike.
#pragma once

#include <cstring>
#include <type_traits>

#include "harness/model/shape.h"

namespace shardproof {

template <class T>
struct Strided {
  const T* data;
  Index row;    // distance from a(i, k) to a(i + 1, k)
  Index inner;  // distance from a(i, k) to a(i, k + 1)
};

namespace product_detail {

// kWidth numbers that the compiler keeps in vector registers.
template <class T, int kWidth>
struct Lanes {
  typedef T Vector __attribute__((vector_size(sizeof(T) * kWidth)));
  Vector values;

  static Lanes load(const T* from) {
    Lanes lanes;
    std::memcpy(&lanes.values, from, sizeof(Vector));
    return lanes;
  }
  void store(T* to) const { std::memcpy(to, &values, sizeof(Vector)); }
  void add_product(T factor, const Lanes& other) { values += factor * other.values; }
};

template <class T>
struct Lanes<T, 1> {
  T value;

  static Lanes load(const T* from) { return {*from}; }
  void store(T* to) const { *to = value; }
  void add_product(T factor, const Lanes& other) { value += factor * other.value; }
};

// kRows x kWidth sums, kept in registers over the whole inner dimension.
template <int kRows, int kWidth, class T>
inline void block(const Strided<T>& a, Index inner, const T* b, Index b_row, T* c, Index c_row) {
  Lanes<T, kWidth> sums[kRows];
  for (int i = 0; i < kRows; ++i) sums[i] = Lanes<T, kWidth>::load(c + i * c_row);
  const T* factor = a.data;
  for (Index k = 0; k < inner; ++k) {
    const auto row = Lanes<T, kWidth>::load(b);
    for (int i = 0; i < kRows; ++i) sums[i].add_product(factor[i * a.row], row);
    factor += a.inner;
    b += b_row;
  }
  for (int i = 0; i < kRows; ++i) sums[i].store(c + i * c_row);
}

// All rows of kWidth columns.
template <int kWidth, class T>
inline void strip(Index rows, Strided<T> a, Index inner, const T* b, Index b_row, T* c,
                  Index c_row) {
  for (; rows >= 4; rows -= 4) {
    block<4, kWidth>(a, inner, b, b_row, c, c_row);
    a.data += 4 * a.row;
    c += 4 * c_row;
  }
  for (; rows > 0; --rows) {
    block<1, kWidth>(a, inner, b, b_row, c, c_row);
    a.data += a.row;
    c += c_row;
  }
}

}  // namespace product_detail

// a: [rows, inner], b: [inner, columns], c: [rows, columns].
template <class T>
void add_product(Index rows, Index inner, Index columns, const Strided<T>& a, const T* b,
                 Index b_row, T* c, Index c_row) {
  using product_detail::strip;
  Index j = 0;
  if constexpr (std::is_same_v<T, double>) {
    for (; j + 8 <= columns; j += 8) strip<8>(rows, a, inner, b + j, b_row, c + j, c_row);
    for (; j + 4 <= columns; j += 4) strip<4>(rows, a, inner, b + j, b_row, c + j, c_row);
    for (; j + 2 <= columns; j += 2) strip<2>(rows, a, inner, b + j, b_row, c + j, c_row);
  }
  for (; j < columns; ++j) strip<1>(rows, a, inner, b + j, b_row, c + j, c_row);
}

}  // namespace shardproof
