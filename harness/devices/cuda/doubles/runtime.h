// The double of the CUDA runtime: the entry points that the device uses, on the CPU. A stream does
// nothing before somebody waits for it, as late as a GPU may: what needs a wait that is missing
// sees old data. Who asks whether it is done waits, too, but only for what can be done: work may
// have to wait for other streams (enqueue_when). With CUDA_LAUNCH_BLOCKING=1 in the environment, as
// with the real one, a launch waits for itself. Names are the vendor's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "harness/devices/cuda/block_executor.h"

namespace shardproof::cuda_double {

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
};

class Stream;
struct Event;
using cudaStream_t = Stream*;
using cudaEvent_t = Event*;

inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDisableTiming = 2;
inline constexpr unsigned cudaMemAttachGlobal = 1;
inline constexpr unsigned cudaHostAllocDefault = 0;

const char* cudaGetErrorName(cudaError_t code);
const char* cudaGetErrorString(cudaError_t code);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
// The process ends where a real one would wait for ever.
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
// As the event stands now: it may be recorded again at once.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
// Does nothing for an event that was never recorded.
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);

// Memory of the GPU alone is filled with bytes that are NaN in every type (its first MiB).
cudaError_t cudaMalloc(void** data, std::size_t bytes);
cudaError_t cudaMallocManaged(void** data, std::size_t bytes, unsigned flags);
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned flags);
cudaError_t cudaFree(void* data);
cudaError_t cudaFreeHost(void* data);

// Work in the order of the stream. A text that it returns says what is wrong with a kernel: that is
// our own mistake and ends the process.
using Work = std::function<std::string(BlockExecutor&)>;
cudaError_t enqueue(cudaStream_t stream, Work work);

// Work that is not done, nor anything behind it, before `ready`, which may ask other streams to do
// what they can, says so.
using Ready = std::function<bool()>;
cudaError_t enqueue_when(cudaStream_t stream, Ready ready);

// How many pieces of work a stream was ever asked for, and whether the first `count` of them are
// done, after it has done what it can.
std::uint64_t asked_of(cudaStream_t stream);
bool reaches(cudaStream_t stream, std::uint64_t count);

// Tells streams that something was done that others may have waited for.
void note_progress();

}  // namespace shardproof::cuda_double
