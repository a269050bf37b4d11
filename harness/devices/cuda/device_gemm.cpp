// Matrix products by cuBLAS, which is column-major: a row-major matrix is the transpose of what it
// sees, and C^T = B^T A^T.
#include <algorithm>
#include <limits>
#include <utility>

#include "harness/devices/cuda/device.h"

namespace shardproof::SHARDPROOF_SIDE {
namespace {

constexpr Index kLargest = std::numeric_limits<int>::max();

// Rows of adjacent elements that do not overlap, near enough for 32-bit products of indices.
bool is_row_major(const View& matrix) {
  const Index rows = matrix.shape[0];
  const Index columns = matrix.shape[1];
  const bool adjacent = columns == 1 || matrix.strides[1] == 1;
  const bool apart = matrix.strides[0] >= columns && matrix.strides[0] <= kLargest / rows;
  return adjacent && (rows == 1 || apart);
}

// Of a matrix or its transpose, whichever is row-major.
int leading_dimension(const View& matrix) {
  if (!is_row_major(matrix)) return leading_dimension(matrix.transposed(0, 1));
  return static_cast<int>(matrix.shape[0] == 1 ? matrix.shape[1] : matrix.strides[0]);
}

bool is_half(DType dtype) { return dtype == DType::kBf16 || dtype == DType::kF16; }

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return CUDA_R_64F;
    case DType::kBf16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kF32:
    case DType::kTf32:
      break;
  }
  return CUDA_R_32F;
}

// As what both operands are handed over: 16 bits where both are of that type, else f32 (tf32: f32
// that is rounded), f64 where one of the three views is.
DType operand_type(const View& a, const View& b, const View& target, DType rounding) {
  const auto any = [&](DType dtype) {
    return a.dtype == dtype || b.dtype == dtype || target.dtype == dtype;
  };
  if (any(DType::kF64)) return DType::kF64;
  if (a.dtype == b.dtype && is_half(a.dtype)) return a.dtype;
  return rounding == DType::kTf32 ? DType::kTf32 : DType::kF32;
}

// Whether memory of `dtype` holds what is wanted. f32 that is to be rounded does not.
bool is_stored_as(DType wanted, DType dtype) {
  return wanted == dtype || (wanted == DType::kF32 && dtype == DType::kTf32);
}

}  // namespace

void CudaDevice::gemm(const View& a, const View& b, const View& target, const Gemm& how) {
  const Index m = target.shape[0];
  const Index n = target.shape[1];
  const Index k = a.shape[how.transpose_a ? 0 : 1];
  require(a.shape[how.transpose_a ? 1 : 0] == m && b.shape[how.transpose_b ? 1 : 0] == k &&
              b.shape[how.transpose_b ? 0 : 1] == n,
          "gemm: shapes agree");
  require(std::max({m, n, k}) <= kLargest, "gemm: extents fit cuBLAS");
  meter_.multiply_adds += static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (!how.accumulate) fill(target, 0);
    return;
  }
  const DType type = operand_type(a, b, target, how.operand);
  const View left = operand(a, type, how.operand, 0);
  const View right = operand(b, type, how.operand, 1);
  const View sum = sum_of(target, type, how.accumulate);
  if (is_row_major(sum)) {
    multiply(left, right, sum, how);
  } else {
    Gemm turned = how;
    turned.transpose_a = !how.transpose_b;
    turned.transpose_b = !how.transpose_a;
    multiply(right, left, sum.transposed(0, 1), turned);
  }
  if (sum.data != target.data) copy(sum, target);
}

// `view` itself where cuBLAS can read it or its transpose, else a dense copy of type `dtype`, which
// says that f32 is to be rounded; f64 says it not.
View CudaDevice::operand(const View& view, DType dtype, DType rounding, std::size_t slot) {
  const bool rounds = dtype == DType::kF64 && rounding == DType::kTf32;
  const bool readable = is_row_major(view) || is_row_major(view.transposed(0, 1));
  if (readable && is_stored_as(dtype, view.dtype) && !rounds) return view;
  const std::size_t bytes = static_cast<std::size_t>(view.elements()) * storage_bytes(dtype);
  const View dense = View::dense(queue_.scratch(slot, bytes), dtype, view.shape);
  copy(view, dense);
  if (rounds) round(dense, rounding);
  return dense;
}

// Where the sums of products of `dtype` go: the target, if cuBLAS can write it as it is, else dense
// memory.
View CudaDevice::sum_of(const View& target, DType dtype, bool accumulate) {
  const DType sum = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const bool writable = is_row_major(target) || is_row_major(target.transposed(0, 1));
  const bool fits = target.dtype == sum || (is_half(dtype) && target.dtype == dtype);
  if (writable && fits) return target;
  const std::size_t bytes = static_cast<std::size_t>(target.elements()) * storage_bytes(sum);
  const View dense = View::dense(queue_.scratch(2, bytes), sum, target.shape);
  if (accumulate) copy(target, dense);
  return dense;
}

// The target is row-major, the others are or their transposes are.
void CudaDevice::multiply(const View& a, const View& b, const View& target, const Gemm& how) {
  const auto turn = [](const View& view, bool transpose) {
    return transpose == is_row_major(view) ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  const auto k = static_cast<int>(a.shape[how.transpose_a ? 0 : 1]);
  const bool wide = target.dtype == DType::kF64;
  const float narrow_scalars[] = {static_cast<float>(how.alpha), how.accumulate ? 1.0f : 0.0f};
  const double wide_scalars[] = {how.alpha, how.accumulate ? 1.0 : 0.0};
  const void* alpha = wide ? static_cast<const void*>(wide_scalars) : narrow_scalars;
  const void* beta = wide ? static_cast<const void*>(wide_scalars + 1) : narrow_scalars + 1;
  check_blas(blas().gemm_ex(queue_.blas_handle(), turn(b, how.transpose_b),
                            turn(a, how.transpose_a), static_cast<int>(target.shape[1]),
                            static_cast<int>(target.shape[0]), k, alpha, b.data, type_of(b.dtype),
                            leading_dimension(b), a.data, type_of(a.dtype), leading_dimension(a),
                            beta, target.data, type_of(target.dtype), leading_dimension(target),
                            wide ? CUBLAS_COMPUTE_64F_PEDANTIC : CUBLAS_COMPUTE_32F_PEDANTIC,
                            CUBLAS_GEMM_DEFAULT),
             "cublasGemmEx");
}

}  // namespace shardproof::SHARDPROOF_SIDE
