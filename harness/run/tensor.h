// View: a strided window on typed memory, never owning. Tensor: owns its memory, which is poisoned
// until written and lies between guard bands that are checked when it dies. Passing a View is like
// passing a std::span: constness of the View does not protect the elements.
#pragma once

#include <dlpack/dlpack.h>

#include <array>
#include <cstddef>
#include <memory>

#include "harness/model/dtype.h"
#include "harness/model/shape.h"

namespace shardproof {

struct View {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  std::array<Index, Shape::kMaximumRank> strides{};  // in elements

  // Row-major over dense memory.
  static View dense(void* data, DType dtype, const Shape& shape);

  Index elements() const { return shape.elements(); }
  std::size_t bytes() const {  // payload
    return static_cast<std::size_t>(elements()) * storage_bytes(dtype);
  }
  bool is_dense() const;

  // Elements [first, first + count) of `dimension`.
  View slice(int dimension, Index first, Index count) const;

  // Element `index` of `dimension`, which is dropped.
  View select(int dimension, Index index) const;

  View transposed(int first, int second) const;

  // The same dense memory under another shape of as many elements.
  View reshaped(const Shape& other) const;

  // One element by coordinates, converted; for tests and small loops.
  double get(std::initializer_list<Index> at) const;
  void set(std::initializer_list<Index> at, double value) const;

  // The element at row-major position `flat`.
  double at(Index flat) const;
  void put(Index flat, double value) const;

  // As a DLPack tensor; shape and strides stay owned by this View.
  DLTensor dlpack() const;

 private:
  void check_slice(int dimension, Index first, Index count) const {
    const bool inside = dimension >= 0 && dimension < shape.rank() && first >= 0 && count >= 0 &&
                        count <= shape[dimension] - first;
    if (!inside) refuse_slice(dimension, first, count);
  }
  [[noreturn]] void refuse_slice(int dimension, Index first, Index count) const;

  // Where the elements from `index` of `dimension` on begin.
  std::byte* moved(int dimension, Index index) const {
    const Index elements = index * strides[static_cast<std::size_t>(dimension)];
    return data + elements * static_cast<Index>(storage_bytes(dtype));
  }
};

// Subjects take views of views for every head of every block: these two are inline.
inline View View::slice(int dimension, Index first, Index count) const {
  check_slice(dimension, first, count);
  View part = *this;
  part.shape[dimension] = count;
  if (count > 0) part.data = moved(dimension, first);
  return part;
}

inline View View::select(int dimension, Index index) const {
  check_slice(dimension, index, 1);
  View part{moved(dimension, index), dtype, {}, {}};
  for (int d = 0; d < shape.rank(); ++d) {
    if (d == dimension) continue;
    part.strides[static_cast<std::size_t>(part.shape.rank())] =
        strides[static_cast<std::size_t>(d)];
    part.shape.append(shape[d]);
  }
  return part;
}

class Memory;

class Tensor {
 public:
  Tensor() = default;
  Tensor(Tensor&& other) noexcept { *this = std::move(other); }
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor() { release(); }

  const View& view() const { return view_; }
  operator const View&() const { return view_; }  // NOLINT: a Tensor is usable as a View
  explicit operator bool() const { return memory_ != nullptr; }

 private:
  friend class Memory;
  void release();

  View view_;
  Memory* memory_ = nullptr;
  std::size_t block_ = 0;
};

}  // namespace shardproof
