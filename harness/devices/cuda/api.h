// Which CUDA the sources of this folder are compiled for. nvcc compiles them for the real one, in
// namespace shardproof::cuda; the C++ compiler for the doubles (doubles/), in
// shardproof::cuda_double, where the same names of the runtime and of cuBLAS mean other functions.
// Both are in one program.
#pragma once

#ifdef __CUDACC__
#include <cublas_v2.h>
#include <cuda_runtime.h>
#define SHARDPROOF_SIDE cuda
#else
#include "harness/devices/cuda/doubles/blas.h"
#include "harness/devices/cuda/doubles/runtime.h"
#define SHARDPROOF_SIDE cuda_double
#endif
