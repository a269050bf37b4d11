#include <cblas.h>

#include <limits>

#include "harness/devices/cpu.h"

namespace shardproof {
namespace {

using cpu::Scratch;

template <typename T>
struct Matrix {
  T* data = nullptr;
  Index rows = 0;
  Index columns = 0;
  Index row_stride = 0;
  Index column_stride = 0;

  Matrix transposed() const { return {data, columns, rows, column_stride, row_stride}; }

  // As BLAS wants a row-major matrix: rows of adjacent elements that do not overlap. Some kernels
  // of OpenBLAS compute the index of an element in blasint, and not only the distance of two rows.
  bool is_row_major() const {
    const bool fits =
        row_stride >= columns && row_stride <= std::numeric_limits<blasint>::max() / rows;
    return (column_stride == 1 || columns == 1) && (rows == 1 || fits);
  }
  blasint leading_dimension() const {
    return static_cast<blasint>(rows == 1 ? columns : row_stride);
  }
};

template <typename T>
Matrix<T> matrix_of(const View& view) {
  return {reinterpret_cast<T*>(view.data), view.shape[0], view.shape[1], view.strides[0],
          view.strides[1]};
}

template <typename T>
void read_matrix(const View& view, T* to) {
  const Index bytes = static_cast<Index>(storage_bytes(view.dtype));
  if (view.strides[0] == view.shape[1] * view.strides[1]) {
    return cpu::read_elements(view.dtype, view.data, view.strides[1], view.elements(), to);
  }
  for (Index i = 0; i < view.shape[0]; ++i) {
    cpu::read_elements(view.dtype, view.data + i * view.strides[0] * bytes, view.strides[1],
                       view.shape[1], to + i * view.shape[1]);
  }
}

// `view` as a matrix that BLAS can read, itself or its transpose: in place or converted.
template <typename T>
Matrix<T> operand_of(const View& view, DType rounding, Scratch& scratch, std::size_t slot) {
  const bool rounds = rounding == DType::kTf32;
  if (cpu::is_stored_as<T>(view.dtype) && !rounds) {
    const Matrix<T> direct = matrix_of<T>(view);
    if (direct.is_row_major() || direct.transposed().is_row_major()) return direct;
  }
  // Read along whichever dimension is adjacent in memory.
  const bool turned = view.strides[0] == 1 && view.strides[1] != 1;
  const View source = turned ? view.transposed(0, 1) : view;
  T* values = scratch.get<T>(slot, view.elements());
  read_matrix(source, values);
  if (rounds) cpu::round_elements(rounding, values, view.elements());
  const Matrix<T> copy{values, source.shape[0], source.shape[1], source.shape[1], 1};
  return turned ? copy.transposed() : copy;
}

void blas_gemm(CBLAS_TRANSPOSE turn_a, CBLAS_TRANSPOSE turn_b, blasint m, blasint n, blasint k,
               double alpha, const float* a, blasint a_stride, const float* b, blasint b_stride,
               double beta, float* target, blasint target_stride) {
  cblas_sgemm(CblasRowMajor, turn_a, turn_b, m, n, k, static_cast<float>(alpha), a, a_stride, b,
              b_stride, static_cast<float>(beta), target, target_stride);
}

void blas_gemm(CBLAS_TRANSPOSE turn_a, CBLAS_TRANSPOSE turn_b, blasint m, blasint n, blasint k,
               double alpha, const double* a, blasint a_stride, const double* b, blasint b_stride,
               double beta, double* target, blasint target_stride) {
  cblas_dgemm(CblasRowMajor, turn_a, turn_b, m, n, k, alpha, a, a_stride, b, b_stride, beta, target,
              target_stride);
}

template <typename T>
void multiply(const Matrix<T>& a, const Matrix<T>& b, const Matrix<T>& target, double alpha,
              bool accumulate) {
  const bool plain_a = a.is_row_major();
  const bool plain_b = b.is_row_major();
  blas_gemm(plain_a ? CblasNoTrans : CblasTrans, plain_b ? CblasNoTrans : CblasTrans,
            static_cast<blasint>(target.rows), static_cast<blasint>(target.columns),
            static_cast<blasint>(a.columns), alpha, a.data,
            plain_a ? a.leading_dimension() : a.transposed().leading_dimension(), b.data,
            plain_b ? b.leading_dimension() : b.transposed().leading_dimension(),
            accumulate ? 1 : 0, target.data, target.leading_dimension());
}

template <typename T>
void product(const View& a, const View& b, const View& target, const Gemm& how, Scratch& scratch) {
  Matrix<T> left = operand_of<T>(a, how.operand, scratch, 0);
  Matrix<T> right = operand_of<T>(b, how.operand, scratch, 1);
  if (how.transpose_a) left = left.transposed();
  if (how.transpose_b) right = right.transposed();
  // A target in tf32 is stored as T, but has to be rounded.
  if (cpu::is_stored_as<T>(target.dtype) && target.dtype != DType::kTf32) {
    const Matrix<T> direct = matrix_of<T>(target);
    if (direct.is_row_major()) return multiply(left, right, direct, how.alpha, how.accumulate);
    const Matrix<T> turned = direct.transposed();
    if (turned.is_row_major()) {
      return multiply(right.transposed(), left.transposed(), turned, how.alpha, how.accumulate);
    }
  }
  const Index columns = target.shape[1];
  const Matrix<T> sum{scratch.get<T>(2, target.elements()), target.shape[0], columns, columns, 1};
  if (how.accumulate) read_matrix(target, sum.data);
  multiply(left, right, sum, how.alpha, how.accumulate);
  const Index bytes = static_cast<Index>(storage_bytes(target.dtype));
  for (Index i = 0; i < sum.rows; ++i) {
    cpu::write_elements(sum.data + i * columns, target.dtype,
                        target.data + i * target.strides[0] * bytes, target.strides[1], columns);
  }
}

}  // namespace

void CpuDevice::gemm(const View& a, const View& b, const View& target, const Gemm& how) {
  const Index m = target.shape[0];
  const Index n = target.shape[1];
  const Index k = a.shape[how.transpose_a ? 0 : 1];
  require(a.shape[how.transpose_a ? 1 : 0] == m && b.shape[how.transpose_b ? 1 : 0] == k &&
              b.shape[how.transpose_b ? 0 : 1] == n,
          "gemm: shapes agree");
  require(std::max({m, n, k}) <= std::numeric_limits<blasint>::max(), "gemm: extents fit BLAS");
  meter_.multiply_adds += static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (!how.accumulate) fill(target, 0);
    return;
  }
  const bool wide = a.dtype == DType::kF64 || b.dtype == DType::kF64 || target.dtype == DType::kF64;
  cpu::in_precision(wide ? DType::kF64 : DType::kF32,
                    [&](auto zero) { product<decltype(zero)>(a, b, target, how, scratch_); });
}

}  // namespace shardproof
