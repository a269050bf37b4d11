#include <string>

#include "harness/devices/cuda/blas.h"
#include "harness/devices/cuda/real/library.h"

namespace shardproof::cuda {
namespace {

Blas load() {
  const Library library("cuBLAS", "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR));
  Blas functions{};
  library.find("cublasCreate_v2", functions.create);
  library.find("cublasDestroy_v2", functions.destroy);
  library.find("cublasSetStream_v2", functions.set_stream);
  library.find("cublasSetWorkspace_v2", functions.set_workspace);
  library.find("cublasGemmEx", functions.gemm_ex);
  return functions;
}

}  // namespace

const Blas& blas() {
  static const Blas functions = load();
  return functions;
}

}  // namespace shardproof::cuda
