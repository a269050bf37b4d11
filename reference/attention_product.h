// The one product that the attention reference is made of: c[i, :] += sum_k a(i, k) b[k, :], with
// rows of b and c contiguous and any strides of a, so that it serves A B and A^T B alike. Either
// factor of a product of Eights (eight.h) may be of plain numbers.
#pragma once

#include <cstring>
#include <type_traits>
#include <utility>

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
  template <class A, class B>
  void add_product(const A& factor, const Lanes<B, 1>& other) {
    value += factor * other.value;
  }
};

// kRows x (kVectors * kWidth) sums, kept in registers over the whole inner dimension.
template <int kRows, int kVectors, int kWidth, class A, class B, class T>
inline void block(const Strided<A>& a, Index inner, const B* b, Index b_row, T* c, Index c_row) {
  Lanes<T, kWidth> sums[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kVectors; ++j) {
      sums[i][j] = Lanes<T, kWidth>::load(c + i * c_row + j * kWidth);
    }
  }
  const A* factors = a.data;
  for (Index k = 0; k < inner; ++k) {
    Lanes<B, kWidth> row[kVectors];
    for (int j = 0; j < kVectors; ++j) row[j] = Lanes<B, kWidth>::load(b + j * kWidth);
    for (int i = 0; i < kRows; ++i) {
      const A factor = factors[i * a.row];
      for (int j = 0; j < kVectors; ++j) sums[i][j].add_product(factor, row[j]);
    }
    factors += a.inner;
    b += b_row;
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kVectors; ++j) sums[i][j].store(c + i * c_row + j * kWidth);
  }
}

// All rows of kVectors * kWidth columns.
template <int kVectors, int kWidth, class A, class B, class T>
inline void strip(Index rows, Strided<A> a, Index inner, const B* b, Index b_row, T* c,
                  Index c_row) {
  for (; rows >= 4; rows -= 4) {
    block<4, kVectors, kWidth>(a, inner, b, b_row, c, c_row);
    a.data += 4 * a.row;
    c += 4 * c_row;
  }
  for (; rows > 0; --rows) {
    block<1, kVectors, kWidth>(a, inner, b, b_row, c, c_row);
    a.data += a.row;
    c += c_row;
  }
}

}  // namespace product_detail

// a: [rows, inner], b: [inner, columns], c: [rows, columns].
template <class A, class B, class T>
void add_product(Index rows, Index inner, Index columns, const Strided<A>& a, const B* b,
                 Index b_row, T* c, Index c_row) {
  using product_detail::strip;
  Index j = 0;
  const auto take = [&]<int kVectors, int kWidth>(std::integer_sequence<int, kVectors, kWidth>) {
    constexpr int kColumns = kVectors * kWidth;
    for (; j + kColumns <= columns; j += kColumns) {
      product_detail::strip<kVectors, kWidth>(rows, a, inner, b + j, b_row, c + j, c_row);
    }
  };
  if constexpr (std::is_same_v<T, double>) {
    take(std::integer_sequence<int, 2, 8>());
    take(std::integer_sequence<int, 1, 8>());
    take(std::integer_sequence<int, 1, 4>());
    take(std::integer_sequence<int, 1, 2>());
  }
  take(std::integer_sequence<int, 1, 1>());
}

}  // namespace shardproof
