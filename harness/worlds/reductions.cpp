#include "harness/worlds/reductions.h"

#include <cmath>

namespace shardproof {
namespace {

template <typename Element>
void add_native(std::byte* target, const std::byte* source, Index elements) {
  auto* sums = reinterpret_cast<Element*>(target);
  const auto* terms = reinterpret_cast<const Element*>(source);
  for (Index i = 0; i < elements; ++i) sums[i] += terms[i];
}

}  // namespace

// A sum in f32 has more than twice the bits of the narrower types, so that rounding it again gives
// the correctly rounded sum.
void add_rounded(DType type, std::byte* target, const std::byte* source, Index elements) {
  if (type == DType::kF64) return add_native<double>(target, source, elements);
  if (type == DType::kF32) return add_native<float>(target, source, elements);
  for (Index i = 0; i < elements; ++i) {
    store(type, target, i,
          static_cast<float>(load(type, target, i)) + static_cast<float>(load(type, source, i)));
  }
}

void keep_larger(DType type, std::byte* target, const std::byte* source, Index elements) {
  for (Index i = 0; i < elements; ++i) {
    const double held = load(type, target, i);
    const double other = load(type, source, i);
    if (held < other || std::isnan(other)) store(type, target, i, other);
  }
}

}  // namespace shardproof
