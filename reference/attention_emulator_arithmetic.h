// For tests only: what the emulated attention is made of: rounding, sums of products in any order,
// and masks that may be faulty.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "harness/model/element.h"
#include "reference/attention_emulator.h"

namespace shardproof {

// Whether query i sees key j, by the problem's mask or by a faulty one.
inline bool emulated_visible(const Problem& p, const Emulation& how, Index b, Index i, Index j) {
  if (how.fault == EmulatedFault::kMaskOffByOne) {
    return visible(p, b, i, j) || (j > 0 && visible(p, b, i, j - 1));
  }
  if (how.fault == EmulatedFault::kDroppedKey && i == p.q - 1 && visible(p, b, i, j)) {
    Index first = 0;
    while (!visible(p, b, i, first)) ++first;
    return j != first;
  }
  return visible(p, b, i, j);
}

inline Partition whole(Index length) {
  Partition partition(1, std::vector<Index>(static_cast<std::size_t>(length)));
  std::iota(partition[0].begin(), partition[0].end(), Index{0});
  return partition;
}

// Real: the accumulator's type, float or double.
template <class Real>
class EmulatedArithmetic {
 public:
  using Span = std::vector<Real>;

  EmulatedArithmetic(const Precision& precision, const Emulation& how)
      : precision_(precision), how_(how) {}

  Real rounded(DType type, Real value) const {
    return static_cast<Real>(round_to(type, static_cast<double>(value)));
  }

  // sum a[k] b[k] in the accumulator, in an order of its own.
  Real dot(const Span& a, const Span& b) {
    const std::size_t n = a.size();
    if (precision_.truncating) return dot_truncating(a, b);
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::uint64_t kind = draw() % 4;
    if (kind == 1) std::reverse(order.begin(), order.end());
    if (kind == 2) {
      for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[draw() % i]);
    }
    if (kind == 3) return dot_pairwise(a, b, 0, n);
    Real sum = 0;
    for (std::size_t i : order) sum = added(sum, operand(a[i]) * operand(b[i]));
    return sum;
  }

  Real added(Real a, Real b) const {
    return how_.fault == EmulatedFault::kBf16Accumulator ? rounded(DType::kBf16, a + b) : a + b;
  }

 private:
  Real operand(Real value) const {
    return format(precision_.operand).precision < format(precision_.io).precision
               ? rounded(precision_.operand, value)
               : value;
  }

  std::uint64_t draw() { return mix(how_.seed + 0x9e3779b97f4a7c15ull * ++draws_); }

  // Rounded toward zero.
  static float truncated(double value) {
    const float nearest = static_cast<float>(value);
    return std::fabs(static_cast<double>(nearest)) > std::fabs(value)
               ? std::nextafter(nearest, 0.0f)
               : nearest;
  }

  Real dot_pairwise(const Span& a, const Span& b, std::size_t first, std::size_t last) {
    if (last - first == 0) return 0;
    if (last - first == 1) return operand(a[first]) * operand(b[first]);
    const std::size_t middle = first + (last - first) / 2;
    return added(dot_pairwise(a, b, first, middle), dot_pairwise(a, b, middle, last));
  }

  // Sixteen exact products at a time, added and cut off.
  Real dot_truncating(const Span& a, const Span& b) {
    Real sum = 0;
    for (std::size_t i = 0; i < a.size(); i += 16) {
      double part = static_cast<double>(sum);
      for (std::size_t k = i; k < std::min(i + 16, a.size()); ++k) {
        part += static_cast<double>(operand(a[k])) * static_cast<double>(operand(b[k]));
      }
      sum = static_cast<Real>(truncated(part));
    }
    return sum;
  }

  const Precision& precision_;
  const Emulation& how_;
  std::uint64_t draws_ = 0;
};

}  // namespace shardproof
