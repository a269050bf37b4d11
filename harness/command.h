// Commands of the program, one a file. Each adds its own sub-command with flags, help and examples,
// and says what to do when it is chosen; main hands down the tables.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "harness/check/judge.h"

namespace shardproof {

inline constexpr int kExitHolds = 0;
inline constexpr int kExitFalsified = 1;
inline constexpr int kExitUnusable = 2;  // usage, environment, or nothing was checked

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;  // the exit code
};

Command fuzz_command(CLI::App& program, const Tables& tables);
Command check_command(CLI::App& program, const Tables& tables);
Command merge_command(CLI::App& program, const Tables& tables);
Command replay_command(CLI::App& program, const Tables& tables);
Command show_command(CLI::App& program, const Tables& tables);
Command list_command(CLI::App& program, const Tables& tables);
Command mutants_command(CLI::App& program, const Tables& tables);
Command doctor_command(CLI::App& program, const Tables& tables);

}  // namespace shardproof
