#include "harness/devices/cuda/nccl.h"

#include <string>

namespace shardproof::SHARDPROOF_SIDE {

void check_nccl(ncclResult_t code, std::string_view call) {
  if (code == ncclSuccess) return;
  throw NcclError(std::string(call) + " failed: " + nccl().get_error_string(code));
}

}  // namespace shardproof::SHARDPROOF_SIDE
