#include "harness/devices/cuda/device.h"

namespace shardproof::SHARDPROOF_SIDE {

using kernels::ElementOperation;
using kernels::matrix_of;
using kernels::vector_of;

void CudaDevice::element_by_element(ElementOperation operation, const View& from, const View& to,
                                    DType precision, double number, DType dtype) {
  in_precision(precision, [&](auto zero) {
    using T = decltype(zero);
    queue_.launch(to.elements(), kernels::Elementwise<T>{kernels::pairs_of(from, to), operation,
                                                         static_cast<T>(number), dtype});
  });
}

void CudaDevice::copy(const View& from, const View& to) {
  element_by_element(ElementOperation::kCopy, from, to, wider(from.dtype, to.dtype));
}

// In f64, so that the number is rounded once.
void CudaDevice::fill(const View& target, double value) {
  element_by_element(ElementOperation::kFill, target, target, DType::kF64, value);
}

void CudaDevice::add(const View& from, const View& target) {
  element_by_element(ElementOperation::kAdd, from, target, wider(from.dtype, target.dtype));
}

void CudaDevice::round(const View& target, DType dtype) {
  if (dtype == target.dtype || dtype == DType::kF64) return;
  element_by_element(ElementOperation::kRound, target, target, target.dtype, 0, dtype);
}

void CudaDevice::divide(const View& divisor, const View& target) {
  element_by_element(ElementOperation::kDivide, divisor, target,
                     wider(divisor.dtype, target.dtype));
}

void CudaDevice::at_least(double least, const View& target) {
  element_by_element(ElementOperation::kAtLeast, target, target, target.dtype, least);
}

void CudaDevice::square_root(const View& target) {
  element_by_element(ElementOperation::kSquareRoot, target, target, target.dtype);
}

void CudaDevice::copy_kept(const View& from, std::span<const std::uint8_t> keep, const View& to) {
  require(static_cast<Index>(keep.size()) == from.shape[0], "copy_kept: a byte an entry");
  if (to.elements() == 0) return;
  in_precision(wider(from.dtype, to.dtype), [&](auto zero) {
    using T = decltype(zero);
    queue_.launch_with(keep, to.elements(), [&](const std::uint8_t* kept) {
      return kernels::CopyKept<T>{kernels::pairs_of(from, to), kept, to.elements() / to.shape[0]};
    });
  });
}

void CudaDevice::add_row(const View& bias, const View& target) {
  require(bias.shape == Shape({target.shape[1]}), "add_row: one bias a column");
  in_precision(target.dtype, [&](auto zero) {
    using T = decltype(zero);
    queue_.launch(target.elements(), kernels::AddRow<T>{vector_of(bias), matrix_of(target)});
  });
}

void CudaDevice::column_sums(const View& from, const View& sums) {
  require(sums.shape == Shape({from.shape[1]}), "column_sums: one sum a column");
  in_precision(wider(from.dtype, sums.dtype), [&](auto zero) {
    using T = decltype(zero);
    queue_.launch(from.shape[1], kernels::ColumnSums<T>{matrix_of(from), vector_of(sums)});
  });
}

void CudaDevice::rotate(const Rotation& how, const View& from, const View& to) {
  require(from.shape == to.shape && from.shape.rank() == 4, "rotate takes two [b, n, h, dim]");
  const Shape& shape = from.shape;
  require(static_cast<Index>(how.positions.size()) == shape[1] && shape[3] % 2 == 0,
          "rotate takes a position a token, and pairs");
  const DType type = wider(from.dtype, to.dtype);
  std::vector<double> turns;
  for (Index position : how.positions) {
    for (Index pair = 0; pair < shape[3] / 2; ++pair) {
      const Turn turn = rotary_turn(how.base, shape[3], position, pair, type);
      turns.push_back(turn.cosine);
      turns.push_back(how.back ? -turn.sine : turn.sine);
    }
  }
  in_precision(type, [&](auto zero) {
    using T = decltype(zero);
    kernels::Rotate<T> kernel{from.data, to.data, from.dtype, to.dtype};
    for (int d = 0; d < 4; ++d) {
      kernel.extents[d] = shape[d];
      kernel.from_strides[d] = from.strides[static_cast<std::size_t>(d)];
      kernel.to_strides[d] = to.strides[static_cast<std::size_t>(d)];
    }
    queue_.launch_with(std::span<const double>(turns), from.elements() / 2,
                       [&](const double* staged) {
                         kernel.turns = staged;
                         return kernel;
                       });
  });
}

}  // namespace shardproof::SHARDPROOF_SIDE
