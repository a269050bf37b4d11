#include "harness/run/tensor.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "harness/run/memory.h"

namespace shardproof {
namespace {

std::array<Index, Shape::kMaximumRank> row_major(const Shape& shape) {
  std::array<Index, Shape::kMaximumRank> strides{};
  Index stride = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[static_cast<std::size_t>(d)] = stride;
    stride *= shape[d];
  }
  return strides;
}

void check_dimension(const View& view, int dimension) {
  if (dimension >= 0 && dimension < view.shape.rank()) return;
  throw std::out_of_range(
      fmt::format("dimension {} of a view of shape {}", dimension, view.shape.text()));
}

Index offset_of(const View& view, std::initializer_list<Index> at) {
  if (static_cast<int>(at.size()) != view.shape.rank()) {
    throw std::out_of_range(
        fmt::format("{} coordinates for a view of shape {}", at.size(), view.shape.text()));
  }
  Index offset = 0;
  int d = 0;
  for (Index i : at) {
    if (i < 0 || i >= view.shape[d]) {
      throw std::out_of_range(fmt::format("coordinate {} of dimension {} of a view of shape {}", i,
                                          d, view.shape.text()));
    }
    offset += i * view.strides[static_cast<std::size_t>(d)];
    ++d;
  }
  return offset;
}

Index offset_of(const View& view, Index flat) {
  if (flat < 0 || flat >= view.elements()) {
    throw std::out_of_range(
        fmt::format("element {} of a view of shape {}", flat, view.shape.text()));
  }
  Index offset = 0;
  for (int d = view.shape.rank() - 1; d >= 0; --d) {
    offset += flat % view.shape[d] * view.strides[static_cast<std::size_t>(d)];
    flat /= view.shape[d];
  }
  return offset;
}

}  // namespace

View View::dense(void* data, DType dtype, const Shape& shape) {
  return View{static_cast<std::byte*>(data), dtype, shape, row_major(shape)};
}

bool View::is_dense() const {
  bool dense = true;
  Index stride = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    if (shape[d] == 0) return true;
    if (shape[d] != 1 && strides[static_cast<std::size_t>(d)] != stride) dense = false;
    stride *= shape[d];
  }
  return dense;
}

void View::refuse_slice(int dimension, Index first, Index count) const {
  check_dimension(*this, dimension);
  throw std::out_of_range(fmt::format("slice [{}, {}) of dimension {} of a view of shape {}", first,
                                      first + count, dimension, shape.text()));
}

View View::transposed(int first, int second) const {
  check_dimension(*this, first);
  check_dimension(*this, second);
  View turned = *this;
  turned.shape[first] = shape[second];
  turned.shape[second] = shape[first];
  std::swap(turned.strides[static_cast<std::size_t>(first)],
            turned.strides[static_cast<std::size_t>(second)]);
  return turned;
}

View View::reshaped(const Shape& other) const {
  if (!is_dense() || other.elements() != elements()) {
    throw std::out_of_range(fmt::format("reshape of a {} view of shape {} to {}",
                                        is_dense() ? "dense" : "strided", shape.text(),
                                        other.text()));
  }
  return dense(data, dtype, other);
}

double View::get(std::initializer_list<Index> coordinates) const {
  return load(dtype, data, offset_of(*this, coordinates));
}

void View::set(std::initializer_list<Index> coordinates, double value) const {
  store(dtype, data, offset_of(*this, coordinates), value);
}

double View::at(Index flat) const { return load(dtype, data, offset_of(*this, flat)); }

void View::put(Index flat, double value) const {
  store(dtype, data, offset_of(*this, flat), value);
}

DLTensor View::dlpack() const {
  // DLPack has no const: the extents are only read through it.
  View& self = const_cast<View&>(*this);
  DLTensor tensor{};
  tensor.data = data;
  tensor.device = {kDLCPU, 0};
  tensor.ndim = shape.rank();
  tensor.dtype = {static_cast<std::uint8_t>(dtype == DType::kBf16 ? kDLBfloat : kDLFloat),
                  static_cast<std::uint8_t>(8 * storage_bytes(dtype)), 1};
  tensor.shape = shape.rank() == 0 ? nullptr : &self.shape[0];
  tensor.strides = shape.rank() == 0 ? nullptr : self.strides.data();
  return tensor;
}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this == &other) return *this;
  release();
  view_ = std::exchange(other.view_, View{});
  memory_ = std::exchange(other.memory_, nullptr);
  block_ = other.block_;
  return *this;
}

void Tensor::release() {
  if (memory_ != nullptr) memory_->free(block_);
  memory_ = nullptr;
}

}  // namespace shardproof
