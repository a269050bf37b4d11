// The double of NCCL for ranks that live in one thread: nothing that was asked for in a group is
// known to anybody before the outermost ncclGroupEnd, transfers of one group move independently of
// each other, each waits until the streams of both its sides have come to it (all of a
// collective's), and what is behind it on a stream waits for all of its group. Ranks that disagree
// are told by ncclCommGetAsyncError and wait for ever. Sums are made in the order of a ring. Names
// are the vendor's.
#pragma once

#include "harness/devices/cuda/doubles/runtime.h"

namespace shardproof::cuda_double {

enum ncclResult_t {
  ncclSuccess = 0,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
};
struct ncclUniqueId {
  char internal[128];
};
enum ncclDataType_t { ncclFloat16 = 6, ncclFloat32 = 7, ncclFloat64 = 8, ncclBfloat16 = 9 };
enum ncclRedOp_t { ncclSum = 0 };

struct NcclMember;
using ncclComm_t = NcclMember*;

}  // namespace shardproof::cuda_double
