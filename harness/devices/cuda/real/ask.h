// Questions to the driver and to libraries that start it, asked in a child process: one that has
// asked itself cannot fork workers that compute.
#pragma once

#include <string>

namespace shardproof::cuda {

struct Answer {
  std::string text;
  std::string trouble;  // why there is no answer, or an empty string
};
Answer ask_in_child(std::string (*question)());

// "13.0" of the numbers that CUDA uses for it.
std::string cuda_version(int number);

// "2.28.9; a GPU for each rank", or why there is no NCCL.
std::string nccl_words();

// Whether several ranks may share a GPU.
bool nccl_shares_gpus();

}  // namespace shardproof::cuda
