#include "harness/devices/cuda/doubles/runtime.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "harness/devices/cuda/check.h"
#include "harness/devices/cuda/launch.h"
#include "harness/model/require.h"

namespace shardproof::cuda_double {
namespace {

// Does what is left when it ends.
struct TestStream {
  cudaStream_t stream = nullptr;

  TestStream() { check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create"); }
  ~TestStream() { cudaStreamDestroy(stream); }
};

struct AddOne {
  static constexpr bool kMeets = false;
  const int* from;
  int* to;

  template <class Block>
  void operator()(Block& block) const {
    kernels::for_all(block, 5, [&](Index i) { to[i] = from[i] + 1; });
  }
};

TEST(RuntimeDouble, NothingIsDoneBeforeSomebodyWaits) {
  TestStream queue;
  int numbers[5] = {1, 2, 3, 4, 5};
  int results[5] = {};
  ASSERT_EQ(launch(queue.stream, 5, AddOne{numbers, results}), cudaSuccess);
  EXPECT_EQ(results[4], 0);
  numbers[4] = 50;  // too early: the kernel sees it
  ASSERT_EQ(cudaStreamSynchronize(queue.stream), cudaSuccess);
  EXPECT_EQ(results[0], 2);
  EXPECT_EQ(results[4], 51);
}

TEST(RuntimeDouble, AnEventStandsBehindWhatWasAskedForBeforeIt) {
  TestStream queue;
  int numbers[5] = {};
  int first[5] = {};
  int second[5] = {};
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(event), cudaSuccess) << "never recorded";
  ASSERT_EQ(launch(queue.stream, 5, AddOne{numbers, first}), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, queue.stream), cudaSuccess);
  ASSERT_EQ(launch(queue.stream, 5, AddOne{first, second}), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(first[2], 1);
  EXPECT_EQ(second[2], 0);
  ASSERT_EQ(cudaStreamSynchronize(queue.stream), cudaSuccess);
  EXPECT_EQ(second[2], 2);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST(RuntimeDouble, StreamsDoNotWaitForEachOther) {
  TestStream one, other;
  int numbers[5] = {};
  int first[5] = {};
  int second[5] = {};
  ASSERT_EQ(launch(one.stream, 5, AddOne{numbers, first}), cudaSuccess);
  ASSERT_EQ(launch(other.stream, 5, AddOne{first, second}), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(other.stream), cudaSuccess);
  EXPECT_EQ(second[0], 1) << "it read what the other stream has not written yet";
  EXPECT_EQ(first[0], 0);
}

TEST(RuntimeDouble, AStreamWaitsForAnEventAsItStoodWhenItWasAskedTo) {
  TestStream one, other;
  int numbers[5] = {};
  int first[5] = {};
  int second[5] = {};
  int third[5] = {};
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other.stream, event, 0), cudaSuccess) << "never recorded";
  ASSERT_EQ(launch(one.stream, 5, AddOne{numbers, first}), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, one.stream), cudaSuccess);
  ASSERT_EQ(launch(one.stream, 5, AddOne{first, second}), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other.stream, event, 0), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, one.stream), cudaSuccess);
  ASSERT_EQ(launch(other.stream, 5, AddOne{first, third}), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(other.stream), cudaSuccess);
  EXPECT_EQ(third[0], 2);
  EXPECT_EQ(second[0], 0) << "nobody waits for that";
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST(RuntimeDouble, WhoAsksWhetherItIsDoneGetsWhatCanBeDone) {
  TestStream queue;
  int numbers[5] = {};
  int first[5] = {};
  int second[5] = {};
  bool may_go = false;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(launch(queue.stream, 5, AddOne{numbers, first}), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, queue.stream), cudaSuccess);
  ASSERT_EQ(enqueue_when(queue.stream, [&] { return may_go; }), cudaSuccess);
  ASSERT_EQ(launch(queue.stream, 5, AddOne{first, second}), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(queue.stream), cudaErrorNotReady);
  EXPECT_EQ(first[0], 1);
  EXPECT_EQ(second[0], 0);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  may_go = true;
  EXPECT_EQ(cudaStreamQuery(queue.stream), cudaSuccess);
  EXPECT_EQ(second[0], 2);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST(RuntimeDouble, CudaLaunchBlockingMakesALaunchWait) {
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  TestStream queue;
  unsetenv("CUDA_LAUNCH_BLOCKING");
  int numbers[5] = {};
  int results[5] = {};
  ASSERT_EQ(launch(queue.stream, 5, AddOne{numbers, results}), cudaSuccess);
  EXPECT_EQ(results[4], 1);
}

TEST(RuntimeDouble, MemoryOfTheGpuHoldsNanBeforeItIsWritten) {
  void* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 64), cudaSuccess);
  EXPECT_TRUE(std::isnan(static_cast<float*>(data)[3]));
  EXPECT_TRUE(std::isnan(static_cast<double*>(data)[7]));
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

TEST(RuntimeDouble, ErrorsNameTheCallTheCodeAndThePlace) {
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(nullptr, nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(launch(nullptr, 1, AddOne{}), cudaErrorInvalidResourceHandle);
  void* data = nullptr;
  const std::size_t too_much = std::size_t{1} << 62;
  EXPECT_EQ(cudaMallocManaged(&data, too_much, cudaMemAttachGlobal), cudaErrorMemoryAllocation);
  try {
    check_cuda(cudaMalloc(&data, too_much), "cudaMalloc");
    FAIL() << "no memory is that large";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find("cudaMalloc failed: cudaErrorMemoryAllocation, out of memory ("), 0u);
    EXPECT_NE(text.find("runtime_test.cpp:"), std::string::npos) << text;
  }
}

struct Racing {
  static constexpr bool kMeets = true;

  template <class Block>
  void operator()(Block& block) const {
    block.template shared<int>().set(0, block.thread());
    block.barrier();
  }
};

TEST(RuntimeDoubleDeathTest, AWrongKernelEndsTheProcessAndSaysWhy) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        TestStream queue;
        launch(queue.stream, 1, Racing());
        cudaStreamSynchronize(queue.stream);
      },
      "a kernel: block 0: .*writes shared element 0, which another thread wrote");
}

}  // namespace
}  // namespace shardproof::cuda_double
