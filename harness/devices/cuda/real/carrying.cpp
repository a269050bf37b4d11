#include <cstdlib>
#include <string>

#include "harness/devices/cuda/make.h"
#include "harness/devices/cuda/nccl.h"
#include "harness/devices/cuda/real/ask.h"
#include "harness/model/require.h"

namespace shardproof::cuda {
namespace {

// "GPUs shares trouble": what a child found out.
std::string find_out() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  try {
    nccl();
  } catch (const Error& error) {
    return "0 0 " + std::string(error.what());
  }
  return std::to_string(count) + " " + std::to_string(nccl_shares_gpus()) + " ";
}

}  // namespace

std::string why_cannot_carry(int ranks) {
  static const Answer answer = ask_in_child(&find_out);
  if (!answer.trouble.empty()) return answer.trouble;
  char* rest = nullptr;
  const long gpus = std::strtol(answer.text.c_str(), &rest, 10);
  const bool shared = std::strtol(rest, &rest, 10) != 0;
  if (rest[1] != '\0') return rest + 1;
  if (gpus == 0) return "no GPU";
  if (ranks <= gpus || shared) return {};
  return std::to_string(ranks) + " ranks on " + std::to_string(gpus) +
         " GPUs: ranks share a GPU from NCCL 2.30 on; this is " + nccl_words();
}

}  // namespace shardproof::cuda
