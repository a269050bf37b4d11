#include <string>

#include "harness/devices/cuda/blas.h"
#include "harness/devices/cuda/make.h"
#include "harness/devices/cuda/real/ask.h"
#include "harness/model/require.h"

namespace shardproof::cuda {
namespace {

constexpr int kOldestArchitecture = 8;  // of the code that is built

std::string why_without_driver() {
  int driver = 0;
  int runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) return "no NVIDIA driver (libcuda.so.1)";
  if (driver / 1000 < runtime / 1000) {
    return "the driver is for CUDA " + cuda_version(driver) + ", the program for " +
           cuda_version(runtime);
  }
  return {};
}

// Asks the driver, in the process that calls it.
std::string why_not() {
  if (const std::string why = why_without_driver(); !why.empty()) return why;
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0)) return "no GPU";
  if (code != cudaSuccess) return std::string("no GPU: ") + cudaGetErrorString(code);
  int major = 0;
  int shares_memory = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  cudaDeviceGetAttribute(&shares_memory, cudaDevAttrConcurrentManagedAccess, 0);
  if (major < kOldestArchitecture) {
    return "the GPU has compute capability " + std::to_string(major) + ".x; it takes 8.0";
  }
  if (shares_memory == 0) return "the GPU and the host cannot share managed memory";
  try {
    blas();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

std::string why_unusable() {
  const Answer answer = ask_in_child(&why_not);
  return answer.trouble.empty() ? answer.text : answer.trouble;
}

}  // namespace shardproof::cuda
