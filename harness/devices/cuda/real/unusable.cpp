#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "harness/devices/cuda/blas.h"
#include "harness/devices/cuda/make.h"
#include "harness/model/require.h"

namespace shardproof::cuda {
namespace {

constexpr int kOldestArchitecture = 8;  // of the code that is built

std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

std::string why_without_driver() {
  int driver = 0;
  int runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) return "no NVIDIA driver (libcuda.so.1)";
  if (driver / 1000 < runtime / 1000) {
    return "the driver is for CUDA " + version(driver) + ", the program for " + version(runtime);
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

void write_all(int pipe, const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t more = write(pipe, text.data() + sent, text.size() - sent);
    if (more <= 0) return;
    sent += static_cast<std::size_t>(more);
  }
}

}  // namespace

std::string why_unusable() {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe to ask the driver through";
  const pid_t child = fork();
  if (child == 0) {
    write_all(ends[1], why_not());
    _exit(0);
  }
  close(ends[1]);
  std::string why;
  char piece[256];
  for (ssize_t got = 1; (got = read(ends[0], piece, sizeof piece)) > 0;) {
    why.append(piece, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return "no process to ask the driver in";
  if (!WIFEXITED(status)) return "the driver ends a process that asks for a GPU";
  return why;
}

}  // namespace shardproof::cuda
