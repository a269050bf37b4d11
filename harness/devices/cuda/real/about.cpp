#include <string>
#include <vector>

#include "harness/devices/cuda/check.h"
#include "harness/devices/cuda/make.h"
#include "harness/devices/cuda/real/ask.h"
#include "harness/model/require.h"

namespace shardproof::cuda {
namespace {

std::string gpu(int number) {
  cudaDeviceProp found{};
  check_cuda(cudaGetDeviceProperties(&found, number), "cudaGetDeviceProperties");
  return "GPU " + std::to_string(number) + ": " + found.name + ", compute capability " +
         std::to_string(found.major) + "." + std::to_string(found.minor) + ", " +
         std::to_string(found.totalGlobalMem >> 30) + " GiB\n";
}

std::string peers(int count) {
  std::string without;
  for (int a = 0; a < count; ++a) {
    for (int b = 0; b < count; ++b) {
      int can = 0;
      if (a != b) check_cuda(cudaDeviceCanAccessPeer(&can, a, b), "cudaDeviceCanAccessPeer");
      if (a == b || can != 0) continue;
      without += (without.empty() ? "" : ", ") + std::to_string(a) + " of " + std::to_string(b);
    }
  }
  return "peer access between GPUs: " + (without.empty() ? "all pairs" : "not " + without) + "\n";
}

// One line after another.
std::string all_lines() {
  int driver = 0;
  int runtime = 0;
  int count = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0 || cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  std::string lines = driver == 0 ? "no NVIDIA driver" : "driver for CUDA " + cuda_version(driver);
  lines += "; built with CUDA " + cuda_version(runtime) + "\n";
  try {
    for (int number = 0; number < count; ++number) lines += gpu(number);
    if (count > 1) lines += peers(count);
  } catch (const Error& error) {
    lines += std::string(error.what()) + "\n";
  }
  return lines + "NCCL: " + nccl_words() + "\n";
}

}  // namespace

std::vector<std::string> about() {
  const Answer answer = ask_in_child(&all_lines);
  if (!answer.trouble.empty()) return {answer.trouble};
  std::vector<std::string> lines(1);
  for (char character : answer.text) {
    if (character == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += character;
    }
  }
  lines.pop_back();
  return lines;
}

// Ranks that are more than the GPUs share them in turns.
void choose_gpu(int number) {
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  check_cuda(cudaSetDevice(number % count), "cudaSetDevice");
}

}  // namespace shardproof::cuda
