// Flags that several commands share, and how their values are read.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "harness/check/campaign.h"
#include "harness/check/domain.h"

namespace shardproof {

// "60s", "2m", "500ms", "1h" in seconds. Throws Error naming `flag`.
double parse_duration(std::string_view flag, std::string_view text);

// The number of processors this process may use.
int processors();

void add_restrictions(CLI::App& app, Restrictions& restrictions);

// Flags about workers: --jobs and --case-timeout.
struct WorkerFlags {
  int jobs = 0;  // 0: one a processor
  std::string case_timeout = "10s";

  int count() const;
  WorkerLimits limits() const;
};
void add_worker_flags(CLI::App& app, WorkerFlags& flags);

// The cases of a .case file: one a line, '#' starts a comment.
std::vector<StoredCase> read_case_file(const std::filesystem::path& path);

// The .case and .h5 files that `path` is or contains, in the order of their names. Throws Error
// when it does not exist.
std::vector<std::filesystem::path> case_files(const std::filesystem::path& path);

}  // namespace shardproof
