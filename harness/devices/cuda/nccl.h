// The entry points of NCCL that the device uses, as a table: the library is loaded when ranks first
// exchange data, so that the program starts where it is missing.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string_view>

#include "harness/devices/cuda/api.h"

#ifdef __CUDACC__
#include <nccl.h>
#else
#include "harness/devices/cuda/doubles/nccl.h"
#endif

namespace shardproof::SHARDPROOF_SIDE {

struct Nccl {
  ncclResult_t (*get_version)(int*);
  const char* (*get_error_string)(ncclResult_t);
  ncclResult_t (*get_unique_id)(ncclUniqueId*);
  ncclResult_t (*comm_init_rank)(ncclComm_t*, int, ncclUniqueId, int);
  ncclResult_t (*comm_destroy)(ncclComm_t);
  ncclResult_t (*comm_abort)(ncclComm_t);
  ncclResult_t (*comm_get_async_error)(ncclComm_t, ncclResult_t*);
  ncclResult_t (*group_start)();
  ncclResult_t (*group_end)();
  ncclResult_t (*send)(const void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
  ncclResult_t (*receive)(void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
  ncclResult_t (*all_reduce)(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t,
                             ncclComm_t, cudaStream_t);
  ncclResult_t (*reduce)(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, int,
                         ncclComm_t, cudaStream_t);
  ncclResult_t (*reduce_scatter)(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t,
                                 ncclComm_t, cudaStream_t);
  ncclResult_t (*all_gather)(const void*, void*, std::size_t, ncclDataType_t, ncclComm_t,
                             cudaStream_t);
  ncclResult_t (*broadcast)(const void*, void*, std::size_t, ncclDataType_t, int, ncclComm_t,
                            cudaStream_t);
};

// Throws Error when the library cannot be loaded.
const Nccl& nccl();

// What NCCL finds wrong.
class NcclError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws NcclError, naming `call` and the code, unless the code is success.
void check_nccl(ncclResult_t code, std::string_view call);

}  // namespace shardproof::SHARDPROOF_SIDE
