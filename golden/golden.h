// Golden: one stored failure, a self-contained HDF5 file. This folder is the only code that knows
// HDF5. The case's text is the truth for a replay; the tensors are evidence for people.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/check/judge.h"

namespace shardproof {

struct GoldenTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<double> values;
};

struct Golden {
  static constexpr int kVersion = 1;

  int version = kVersion;
  std::string case_text;
  std::string property;
  Verdict verdict;
  std::string contract;                            // precision contract, one "key=value" a line
  std::map<std::string, std::string> environment;  // version, commit, compiler, blas, cpu, seed
  std::vector<GoldenTensor> inputs;                // inputs and upstream gradients
  std::vector<GoldenTensor> got;
  std::vector<GoldenTensor> want;   // f64
  std::vector<GoldenTensor> bound;  // f64, the likely bound T2
  std::vector<KeptShard> shards;    // of the worst tensor
  Trace trace;
};

// From a failing report (its base run must have kept shards).
Golden make_golden(const CaseReport& report, const Judgement& failure,
                   std::map<std::string, std::string> environment);

// Writes the whole file or nothing: temporary name, fsync, rename, fsync of the folder. Throws
// Error.
void write_golden(const std::filesystem::path& path, const Golden& golden);

// Reads a file that may be foreign or damaged, in a child process with limits. Throws Error.
Golden read_golden(const std::filesystem::path& path);

// What a person needs: which tensor and element, where it lies (batch, head, token, rank, ring
// step), got, want, bound, ratio, and a coarse map of where the errors are.
std::string show(const Golden& golden, const Vocabulary& vocabulary);

}  // namespace shardproof
