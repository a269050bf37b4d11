// check_cuda and check_blas: every return code is looked at where it is returned.
#pragma once

#include <source_location>
#include <string_view>

#include "harness/devices/cuda/api.h"

namespace shardproof::SHARDPROOF_SIDE {

// Throws Error, naming `call`, where it stands and the code, unless the code is success.
void check_cuda(cudaError_t code, std::string_view call,
                std::source_location where = std::source_location::current());
void check_blas(cublasStatus_t code, std::string_view call,
                std::source_location where = std::source_location::current());

}  // namespace shardproof::SHARDPROOF_SIDE
