// The double of cuBLAS: the entry points that the device uses, column-major as they are, computed
// by OpenBLAS when the stream comes to them. Arguments are refused as the cuBLAS manual says. Names
// are the vendor's.
#pragma once

#include <cstddef>

#include "harness/devices/cuda/doubles/runtime.h"

namespace shardproof::cuda_double {

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F_PEDANTIC = 69, CUBLAS_COMPUTE_64F_PEDANTIC = 71 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };

struct BlasHandle;
using cublasHandle_t = BlasHandle*;

}  // namespace shardproof::cuda_double
