#include <cstdlib>
#include <string>

#include "harness/devices/cuda/nccl.h"
#include "harness/devices/cuda/real/ask.h"
#include "harness/devices/cuda/real/library.h"

namespace shardproof::cuda {
namespace {

constexpr int kSharesGpus = 23000;  // the first version in which ranks may share a GPU

int version_of(const Nccl& functions) {
  int version = 0;
  functions.get_version(&version);
  return version;
}

// What makes ranks share a GPU is read when a communicator is made.
Nccl load() {
  const Library library("NCCL", "libnccl.so." + std::to_string(NCCL_MAJOR));
  Nccl functions{};
  library.find("ncclGetVersion", functions.get_version);
  library.find("ncclGetErrorString", functions.get_error_string);
  library.find("ncclGetUniqueId", functions.get_unique_id);
  library.find("ncclCommInitRank", functions.comm_init_rank);
  library.find("ncclCommDestroy", functions.comm_destroy);
  library.find("ncclCommAbort", functions.comm_abort);
  library.find("ncclCommGetAsyncError", functions.comm_get_async_error);
  library.find("ncclGroupStart", functions.group_start);
  library.find("ncclGroupEnd", functions.group_end);
  library.find("ncclSend", functions.send);
  library.find("ncclRecv", functions.receive);
  library.find("ncclAllReduce", functions.all_reduce);
  library.find("ncclReduce", functions.reduce);
  library.find("ncclReduceScatter", functions.reduce_scatter);
  library.find("ncclAllGather", functions.all_gather);
  library.find("ncclBroadcast", functions.broadcast);
  if (version_of(functions) >= kSharesGpus) setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  return functions;
}

}  // namespace

const Nccl& nccl() {
  static const Nccl functions = load();
  return functions;
}

bool nccl_shares_gpus() { return version_of(nccl()) >= kSharesGpus; }

std::string nccl_words() {
  try {
    const int version = version_of(nccl());
    return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
           std::to_string(version % 100) +
           (nccl_shares_gpus() ? "; ranks may share a GPU" : "; a GPU for each rank");
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace shardproof::cuda
