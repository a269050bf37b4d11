#include "harness/devices/cuda/blas.h"

#include <cblas.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "harness/model/dtype.h"

namespace shardproof::cuda_double {

// Without a stream of its own a handle uses one that nobody waits for: as the default stream is, to
// streams that do not wait for it.
struct BlasHandle {
  cudaStream_t nobodys = nullptr;
  cudaStream_t stream = nullptr;
};

namespace {

// A column-major matrix in memory.
struct Stored {
  const void* data = nullptr;
  cudaDataType_t type = CUDA_R_32F;
  int rows = 0;
  int columns = 0;
  int leading = 0;

  bool is_valid() const { return data != nullptr && leading >= std::max(1, rows); }
};

struct Product {
  bool turn_a = false;
  bool turn_b = false;
  int m = 0;
  int n = 0;
  int k = 0;
  double alpha = 1;
  double beta = 0;
  Stored a;
  Stored b;
  Stored c;
};

DType dtype_of(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_64F:
      return DType::kF64;
    case CUDA_R_16F:
      return DType::kF16;
    case CUDA_R_16BF:
      return DType::kBf16;
    case CUDA_R_32F:
      break;
  }
  return DType::kF32;
}

// The matrix as floats: itself where it is, else a dense copy in `room`.
Stored as_floats(const Stored& matrix, std::vector<float>& room) {
  if (matrix.type == CUDA_R_32F) return matrix;
  const DType dtype = dtype_of(matrix.type);
  room.clear();
  for (int j = 0; j < matrix.columns; ++j) {
    for (int i = 0; i < matrix.rows; ++i) {
      const std::ptrdiff_t at = i + std::ptrdiff_t{j} * matrix.leading;
      room.push_back(static_cast<float>(load(dtype, matrix.data, at)));
    }
  }
  return {room.data(), CUDA_R_32F, matrix.rows, matrix.columns, std::max(1, matrix.rows)};
}

CBLAS_TRANSPOSE turn(bool turned) { return turned ? CblasTrans : CblasNoTrans; }

void multiply_doubles(const Product& p) {
  cblas_dgemm(CblasColMajor, turn(p.turn_a), turn(p.turn_b), p.m, p.n, p.k, p.alpha,
              static_cast<const double*>(p.a.data), p.a.leading,
              static_cast<const double*>(p.b.data), p.b.leading, p.beta,
              static_cast<double*>(const_cast<void*>(p.c.data)), p.c.leading);
}

// Sums in floats, rounded once where the target is narrower.
void multiply_floats(const Product& p) {
  std::vector<float> a_room, b_room, c_room;
  const Stored a = as_floats(p.a, a_room);
  const Stored b = as_floats(p.b, b_room);
  const Stored c = as_floats(p.c, c_room);
  auto* sums = static_cast<float*>(const_cast<void*>(c.data));
  cblas_sgemm(CblasColMajor, turn(p.turn_a), turn(p.turn_b), p.m, p.n, p.k,
              static_cast<float>(p.alpha), static_cast<const float*>(a.data), a.leading,
              static_cast<const float*>(b.data), b.leading, static_cast<float>(p.beta), sums,
              c.leading);
  if (c.data == p.c.data) return;
  for (int j = 0; j < p.n; ++j) {
    for (int i = 0; i < p.m; ++i) {
      store(dtype_of(p.c.type), const_cast<void*>(p.c.data), i + std::ptrdiff_t{j} * p.c.leading,
            static_cast<double>(sums[i + std::ptrdiff_t{j} * c.leading]));
    }
  }
}

// The table of supported types in the manual, as far as the device uses it.
bool is_supported(cudaDataType_t a, cudaDataType_t b, cudaDataType_t c,
                  cublasComputeType_t compute) {
  if (a != b) return false;
  if (compute == CUBLAS_COMPUTE_64F_PEDANTIC) return a == CUDA_R_64F && c == CUDA_R_64F;
  return a != CUDA_R_64F && (c == CUDA_R_32F || c == a);
}

cublasStatus_t create(cublasHandle_t* handle) {
  *handle = new BlasHandle();
  cudaStreamCreateWithFlags(&(*handle)->nobodys, cudaStreamNonBlocking);
  (*handle)->stream = (*handle)->nobodys;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t destroy(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  cudaStreamDestroy(handle->nobodys);
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set_stream(cublasHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set_workspace(cublasHandle_t handle, void* workspace, std::size_t) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool aligned = reinterpret_cast<std::uintptr_t>(workspace) % 256 == 0;
  return aligned ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

double scalar(const void* value, cublasComputeType_t compute) {
  return compute == CUBLAS_COMPUTE_64F_PEDANTIC ? *static_cast<const double*>(value)
                                                : *static_cast<const float*>(value);
}

cublasStatus_t gemm_ex(cublasHandle_t handle, cublasOperation_t turn_a, cublasOperation_t turn_b,
                       int m, int n, int k, const void* alpha, const void* a, cudaDataType_t a_type,
                       int a_leading, const void* b, cudaDataType_t b_type, int b_leading,
                       const void* beta, void* c, cudaDataType_t c_type, int c_leading,
                       cublasComputeType_t compute, cublasGemmAlgo_t) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  Product product;
  product.turn_a = turn_a == CUBLAS_OP_T;
  product.turn_b = turn_b == CUBLAS_OP_T;
  product.m = m;
  product.n = n;
  product.k = k;
  product.a = {a, a_type, product.turn_a ? k : m, product.turn_a ? m : k, a_leading};
  product.b = {b, b_type, product.turn_b ? n : k, product.turn_b ? k : n, b_leading};
  product.c = {c, c_type, m, n, c_leading};
  if (m < 0 || n < 0 || k < 0 || alpha == nullptr || beta == nullptr || !product.a.is_valid() ||
      !product.b.is_valid() || !product.c.is_valid()) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!is_supported(a_type, b_type, c_type, compute)) return CUBLAS_STATUS_NOT_SUPPORTED;
  product.alpha = scalar(alpha, compute);
  product.beta = scalar(beta, compute);
  const auto multiply = a_type == CUDA_R_64F ? &multiply_doubles : &multiply_floats;
  const cudaError_t code = enqueue(handle->stream, [product, multiply](BlockExecutor&) {
    multiply(product);
    return std::string();
  });
  return code == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

}  // namespace

const Blas& blas() {
  static constexpr Blas doubles{&create, &destroy, &set_stream, &set_workspace, &gemm_ex};
  return doubles;
}

}  // namespace shardproof::cuda_double
