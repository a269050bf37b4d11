// Views as plugins see them: DLPack tensors. A DLTensor borrows shape and strides from its View.
#pragma once

#include <cstring>
#include <span>
#include <stdexcept>

#include "harness/run/tensor.h"

namespace shardproof {

// What a DLTensor says. tf32 comes back as f32, which has the same bits. Throws
// std::invalid_argument where it is nothing that a rank could hold.
inline View view_of(const DLTensor& tensor) {
  View view;
  const auto refuse = [](const char* why) { throw std::invalid_argument(why); };
  if (tensor.ndim < 0 || tensor.ndim > static_cast<int>(Shape::kMaximumRank)) {
    refuse("a DLTensor has too many dimensions");
  }
  if (tensor.dtype.lanes != 1) refuse("a DLTensor has vectors for elements");
  const int bits = tensor.dtype.bits;
  if (tensor.dtype.code == kDLBfloat && bits == 16) {
    view.dtype = DType::kBf16;
  } else if (tensor.dtype.code == kDLFloat && (bits == 16 || bits == 32 || bits == 64)) {
    view.dtype = bits == 16 ? DType::kF16 : bits == 32 ? DType::kF32 : DType::kF64;
  } else {
    refuse("a DLTensor is not of f64, f32, bf16 or f16");
  }
  for (int d = 0; d < tensor.ndim; ++d) view.shape.append(tensor.shape[d]);
  view.data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  view = View::dense(view.data, view.dtype, view.shape);
  for (int d = 0; tensor.strides != nullptr && d < tensor.ndim; ++d) {
    view.strides[static_cast<std::size_t>(d)] = tensor.strides[d];
  }
  return view;
}

// Whether two tensors of one shape and dtype hold the same bits.
inline bool same_bits(const View& a, const View& b) {
  if (a.is_dense() && b.is_dense()) {
    return a.elements() == 0 || std::memcmp(a.data, b.data, a.bytes()) == 0;
  }
  if (a.shape.rank() == 0) return std::memcmp(a.data, b.data, storage_bytes(a.dtype)) == 0;
  for (Index i = 0; i < a.shape[0]; ++i) {
    if (!same_bits(a.select(0, i), b.select(0, i))) return false;
  }
  return true;
}

}  // namespace shardproof
