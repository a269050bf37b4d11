// The kernel of a matrix product, and the companions of its errors. Internal to projection.
#pragma once

#include <numeric>
#include <span>

#include "reference/projection.h"

namespace shardproof {

// target [n] += sum over the listed k of row [k] * right [k, n].
template <class Real>
void add_row_product(const Real* row, const Real* right, std::span<const Index> list, Index n,
                     Real* target) {
  std::size_t at = 0;
  for (; at + 4 <= list.size(); at += 4) {
    const Index k0 = list[at], k1 = list[at + 1], k2 = list[at + 2], k3 = list[at + 3];
    const Real a0 = row[k0], a1 = row[k1], a2 = row[k2], a3 = row[k3];
    const Real* b0 = right + k0 * n;
    const Real* b1 = right + k1 * n;
    const Real* b2 = right + k2 * n;
    const Real* b3 = right + k3 * n;
    for (Index j = 0; j < n; ++j) {
      target[j] += (a0 * b0[j] + a1 * b1[j]) + (a2 * b2[j] + a3 * b3[j]);
    }
  }
  for (; at < list.size(); ++at) {
    const Real a = row[list[at]];
    const Real* b = right + list[at] * n;
    for (Index j = 0; j < n; ++j) target[j] += a * b[j];
  }
}

template <class Real>
std::vector<Real> plain_product(const std::vector<Real>& left, const std::vector<Real>& right,
                                Index rows, Index inner, Index columns) {
  std::vector<Real> target(size_of(rows, columns));
  std::vector<Index> all(static_cast<std::size_t>(inner));
  std::iota(all.begin(), all.end(), Index{0});
  for (Index i = 0; i < rows; ++i) {
    add_row_product(left.data() + i * inner, right.data(), all, columns,
                    target.data() + i * columns);
  }
  return target;
}

// Fills product.errors and product.grid; product.values is known.
template <class Real>
void add_errors(Product<Real>& product, const Factor<Real>& left, const Factor<Real>& right,
                const ProductRule& rule);

}  // namespace shardproof
