#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "harness/devices/cuda/nccl.h"
#include "harness/devices/cuda/real/ask.h"
#include "harness/model/require.h"

namespace shardproof::cuda {
namespace {

constexpr int kSharesGpus = 23000;  // the first version in which ranks may share a GPU

void* open_library() {
  const std::string name = "libnccl.so." + std::to_string(NCCL_MAJOR);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error("NCCL cannot be loaded: " + std::string(dlerror()));
  return library;
}

template <class Function>
void find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr) throw Error("NCCL has no function " + std::string(symbol));
}

int version_of(const Nccl& functions) {
  int version = 0;
  functions.get_version(&version);
  return version;
}

// What makes ranks share a GPU is read when a communicator is made.
Nccl load() {
  void* library = open_library();
  Nccl functions{};
  find(library, "ncclGetVersion", functions.get_version);
  find(library, "ncclGetErrorString", functions.get_error_string);
  find(library, "ncclGetUniqueId", functions.get_unique_id);
  find(library, "ncclCommInitRank", functions.comm_init_rank);
  find(library, "ncclCommDestroy", functions.comm_destroy);
  find(library, "ncclCommAbort", functions.comm_abort);
  find(library, "ncclCommGetAsyncError", functions.comm_get_async_error);
  find(library, "ncclGroupStart", functions.group_start);
  find(library, "ncclGroupEnd", functions.group_end);
  find(library, "ncclSend", functions.send);
  find(library, "ncclRecv", functions.receive);
  find(library, "ncclAllReduce", functions.all_reduce);
  find(library, "ncclReduce", functions.reduce);
  find(library, "ncclReduceScatter", functions.reduce_scatter);
  find(library, "ncclAllGather", functions.all_gather);
  find(library, "ncclBroadcast", functions.broadcast);
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
