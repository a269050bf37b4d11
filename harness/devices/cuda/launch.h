// launch: hands a kernel (kernels/block.h) to a stream, of a GPU or of the doubles.
#pragma once

#include <algorithm>

#include "harness/devices/cuda/api.h"
#include "harness/devices/cuda/kernels/block.h"

namespace shardproof::SHARDPROOF_SIDE {

#ifdef __CUDACC__

// A block of a grid.
class Cta {
 public:
  template <typename T>
  struct Shared {
    __device__ T get(int i) const { return data[i]; }
    __device__ void set(int i, T value) { data[i] = value; }

    T* data;
  };

  __device__ Index index() const { return blockIdx.x; }
  __device__ Index count() const { return gridDim.x; }
  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ int threads() const { return static_cast<int>(blockDim.x); }
  __device__ void barrier() { __syncthreads(); }
  template <typename T>
  __device__ Shared<T> shared() {
    extern __shared__ double memory[];
    static_assert(sizeof(T) <= sizeof(double));
    return {reinterpret_cast<T*>(memory)};
  }
};

template <class Kernel>
__global__ void run_kernel(const Kernel kernel) {
  Cta block;
  kernel(block);
}

inline constexpr Index kMostBlocks = 4096;
inline constexpr int kThreads = 128;

template <class Kernel>
cudaError_t launch_blocks(cudaStream_t stream, Index blocks, int threads, const Kernel& kernel) {
  Kernel argument = kernel;
  void* arguments[] = {&argument};
  const std::size_t shared =
      Kernel::kMeets ? static_cast<std::size_t>(threads) * sizeof(double) : 0;
  return cudaLaunchKernel(run_kernel<Kernel>, dim3(static_cast<unsigned>(blocks)),
                          dim3(static_cast<unsigned>(threads)), arguments, shared, stream);
}

#else

inline constexpr Index kMostBlocks = 3;
inline constexpr int kThreads = 8;

template <class Kernel>
cudaError_t launch_blocks(cudaStream_t stream, Index blocks, int threads, const Kernel& kernel) {
  return enqueue(stream, [kernel, blocks, threads](BlockExecutor& executor) {
    return executor.run(kernel, blocks, threads);
  });
}

#endif

// `work`: rows of which a block takes one at a time where its threads meet, or elements of which a
// thread takes one at a time. Nothing is launched for none.
template <class Kernel>
cudaError_t launch(cudaStream_t stream, Index work, const Kernel& kernel) {
  if (work <= 0) return cudaSuccess;
  const Index wanted = Kernel::kMeets ? work : (work + kThreads - 1) / kThreads;
  return launch_blocks(stream, std::min(wanted, kMostBlocks), kThreads, kernel);
}

}  // namespace shardproof::SHARDPROOF_SIDE
