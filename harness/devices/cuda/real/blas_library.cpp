#include <dlfcn.h>

#include <string>

#include "harness/devices/cuda/blas.h"
#include "harness/model/require.h"

namespace shardproof::cuda {
namespace {

void* open_library() {
  const std::string name = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error("cuBLAS cannot be loaded: " + std::string(dlerror()));
  return library;
}

template <class Function>
void find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr) throw Error("cuBLAS has no function " + std::string(symbol));
}

Blas load() {
  void* library = open_library();
  Blas functions{};
  find(library, "cublasCreate_v2", functions.create);
  find(library, "cublasDestroy_v2", functions.destroy);
  find(library, "cublasSetStream_v2", functions.set_stream);
  find(library, "cublasSetWorkspace_v2", functions.set_workspace);
  find(library, "cublasGemmEx", functions.gemm_ex);
  return functions;
}

}  // namespace

const Blas& blas() {
  static const Blas functions = load();
  return functions;
}

}  // namespace shardproof::cuda
