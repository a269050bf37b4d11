#include "harness/devices/cuda/check.h"

#include <string>

#include "harness/model/require.h"

namespace shardproof::SHARDPROOF_SIDE {
namespace {

[[noreturn]] void refuse(std::string_view call, const std::string& code,
                         std::source_location where) {
  const std::string_view path = where.file_name();
  throw Error(std::string(call) + " failed: " + code + " (" +
              std::string(path.substr(path.rfind('/') + 1)) + ":" + std::to_string(where.line()) +
              ")");
}

}  // namespace

void check_cuda(cudaError_t code, std::string_view call, std::source_location where) {
  if (code == cudaSuccess) return;
  refuse(call, std::string(cudaGetErrorName(code)) + ", " + cudaGetErrorString(code), where);
}

void check_blas(cublasStatus_t code, std::string_view call, std::source_location where) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  refuse(call, "cublasStatus_t " + std::to_string(static_cast<int>(code)), where);
}

}  // namespace shardproof::SHARDPROOF_SIDE
