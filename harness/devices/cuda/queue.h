// Queue: one rank's share of a GPU: a stream, on which everything it asks for is done in order, and
// the memory for that. Work is done some time before settle() returns.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "harness/devices/cuda/blas.h"
#include "harness/devices/cuda/check.h"
#include "harness/devices/cuda/launch.h"
#include "harness/run/store.h"

namespace shardproof::SHARDPROOF_SIDE {

class Queue final : public Store {
 public:
  Queue();
  ~Queue() override;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Tensors: memory that the GPU and the host see, in turns.
  std::byte* acquire(std::size_t bytes) override;
  void release(std::byte* data) override;
  void settle() override;
  void prepare(std::byte* block, std::size_t bytes, std::uint64_t poison) override;
  void inspect(const std::byte* block, std::size_t bytes, std::uint64_t number,
               BrokenGuards* broken) noexcept override;

  // Called over and over by whatever waits for the stream; may throw. Empty: nothing is.
  void wait_with(std::function<void()> meanwhile) { meanwhile_ = std::move(meanwhile); }

  cudaStream_t stream() const { return stream_; }
  cublasHandle_t blas_handle() const { return blas_handle_; }

  template <class Kernel>
  void launch(Index work, const Kernel& kernel) {
    check_cuda(SHARDPROOF_SIDE::launch(stream_, work, kernel), "a kernel's launch");
  }

  // Launches kernel_of(values), where a kernel finds a copy of `values`, which may change as soon
  // as this returns.
  template <typename T, class KernelOf>
  void launch_with(std::span<const T> values, Index work, KernelOf kernel_of) {
    const Staging& staging = stage(values.data(), values.size_bytes());
    launch(work, kernel_of(reinterpret_cast<const T*>(staging.data)));
    mark_read(staging);
  }

  // Work memory of the GPU. What it holds is lost when the slot is asked for again.
  std::byte* scratch(std::size_t slot, std::size_t bytes);

  static constexpr std::size_t kScratchSlots = 4;

 private:
  // Host memory that the GPU reads.
  struct Staging {
    std::byte* data = nullptr;
    std::size_t capacity = 0;
    cudaEvent_t read = nullptr;  // recorded behind the kernel that reads it
  };
  struct Scratch {
    std::byte* data = nullptr;
    std::size_t capacity = 0;
  };

  // Memory that nobody reads any more, with a copy of `values`.
  const Staging& stage(const void* values, std::size_t bytes);
  // What was launched last reads it.
  void mark_read(const Staging& staging);

  // Returns when what stands before the event is done.
  void await(cudaEvent_t event);

  std::function<void()> meanwhile_;
  cudaStream_t stream_ = nullptr;
  cublasHandle_t blas_handle_ = nullptr;
  std::byte* workspace_ = nullptr;
  std::array<Staging, 8> staging_;  // so many launches ahead the host may go
  std::size_t next_staging_ = 0;
  std::array<Scratch, kScratchSlots> scratch_;
  std::vector<std::byte*> outgrown_;  // scratch that work under way may still use
};

}  // namespace shardproof::SHARDPROOF_SIDE
