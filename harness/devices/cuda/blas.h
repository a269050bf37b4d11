// The entry points of cuBLAS that the device uses, as a table: the library is loaded when a device
// is made, so that the program starts where it is missing.
#pragma once

#include <cstddef>

#include "harness/devices/cuda/api.h"

namespace shardproof::SHARDPROOF_SIDE {

struct Blas {
  cublasStatus_t (*create)(cublasHandle_t*);
  cublasStatus_t (*destroy)(cublasHandle_t);
  cublasStatus_t (*set_stream)(cublasHandle_t, cudaStream_t);
  cublasStatus_t (*set_workspace)(cublasHandle_t, void*, std::size_t);
  cublasStatus_t (*gemm_ex)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                            const void*, const void*, cudaDataType_t, int, const void*,
                            cudaDataType_t, int, const void*, void*, cudaDataType_t, int,
                            cublasComputeType_t, cublasGemmAlgo_t);
};

// Throws Error when the library cannot be loaded.
const Blas& blas();

}  // namespace shardproof::SHARDPROOF_SIDE
