#include "harness/devices/cuda/queue.h"

#include <bit>
#include <cstring>
#include <exception>

#include "harness/devices/cuda/kernels/memory.h"
#include "harness/model/require.h"

namespace shardproof::SHARDPROOF_SIDE {
namespace {

// cuBLAS gives the same bits for the same call when a handle has its own workspace (cuBLAS manual,
// "Results reproducibility"), of the size that it recommends for Hopper.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
constexpr std::size_t kSmallest = 4096;

// A failure of earlier work leaves the process without a usable GPU: another worker has to go on.
template <class Work>
void or_end(Work work) {
  try {
    work();
  } catch (const std::exception& error) {
    fail_requirement(error.what(), std::source_location::current());
  }
}

}  // namespace

Queue::Queue() {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
             "cudaStreamCreateWithFlags");
  check_blas(blas().create(&blas_handle_), "cublasCreate");
  check_blas(blas().set_stream(blas_handle_, stream_), "cublasSetStream");
  void* workspace = nullptr;
  check_cuda(cudaMalloc(&workspace, kWorkspaceBytes), "cudaMalloc");
  workspace_ = static_cast<std::byte*>(workspace);
  check_blas(blas().set_workspace(blas_handle_, workspace_, kWorkspaceBytes), "cublasSetWorkspace");
  for (Staging& staging : staging_) {
    check_cuda(cudaEventCreateWithFlags(&staging.read, cudaEventDisableTiming),
               "cudaEventCreateWithFlags");
  }
}

// The process is about to end: what fails now fails nobody.
Queue::~Queue() {
  meanwhile_ = nullptr;
  settle();
  for (Staging& staging : staging_) {
    cudaFreeHost(staging.data);
    cudaEventDestroy(staging.read);
  }
  for (Scratch& scratch : scratch_) cudaFree(scratch.data);
  blas().destroy(blas_handle_);
  cudaFree(workspace_);
  cudaStreamDestroy(stream_);
}

std::byte* Queue::acquire(std::size_t bytes) {
  void* data = nullptr;
  check_cuda(cudaMallocManaged(&data, bytes, cudaMemAttachGlobal), "cudaMallocManaged");
  return static_cast<std::byte*>(data);
}

void Queue::release(std::byte* data) { cudaFree(data); }

void Queue::settle() {
  while (meanwhile_ && cudaStreamQuery(stream_) == cudaErrorNotReady) meanwhile_();
  or_end([&] { check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); });
  for (std::byte* data : outgrown_) cudaFree(data);
  outgrown_.clear();
}

void Queue::await(cudaEvent_t event) {
  while (meanwhile_ && cudaEventQuery(event) == cudaErrorNotReady) meanwhile_();
  check_cuda(cudaEventSynchronize(event), "cudaEventSynchronize");
}

void Queue::prepare(std::byte* block, std::size_t bytes, std::uint64_t poison) {
  const kernels::Prepare kernel{block, static_cast<Index>(bytes), poison};
  launch(kernel.words(), kernel);
}

void Queue::inspect(const std::byte* block, std::size_t bytes, std::uint64_t number,
                    BrokenGuards* broken) noexcept {
  or_end([&] { launch(1, kernels::Inspect{block, static_cast<Index>(bytes), number, broken}); });
}

std::byte* Queue::scratch(std::size_t slot, std::size_t bytes) {
  Scratch& wanted = scratch_[slot];
  if (wanted.capacity >= bytes) return wanted.data;
  if (wanted.data != nullptr) outgrown_.push_back(wanted.data);
  wanted = {};
  const std::size_t capacity = std::bit_ceil(std::max(bytes, kSmallest));
  void* data = nullptr;
  check_cuda(cudaMalloc(&data, capacity), "cudaMalloc");
  wanted = {static_cast<std::byte*>(data), capacity};
  return wanted.data;
}

const Queue::Staging& Queue::stage(const void* values, std::size_t bytes) {
  Staging& staging = staging_[next_staging_];
  next_staging_ = (next_staging_ + 1) % staging_.size();
  await(staging.read);
  if (staging.capacity < bytes) {
    check_cuda(cudaFreeHost(staging.data), "cudaFreeHost");
    staging.data = nullptr;
    staging.capacity = 0;
    const std::size_t capacity = std::bit_ceil(std::max(bytes, kSmallest));
    void* data = nullptr;
    check_cuda(cudaHostAlloc(&data, capacity, cudaHostAllocDefault), "cudaHostAlloc");
    staging.data = static_cast<std::byte*>(data);
    staging.capacity = capacity;
  }
  if (bytes > 0) std::memcpy(staging.data, values, bytes);
  return staging;
}

void Queue::mark_read(const Staging& staging) {
  check_cuda(cudaEventRecord(staging.read, stream_), "cudaEventRecord");
}

}  // namespace shardproof::SHARDPROOF_SIDE
