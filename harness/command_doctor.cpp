#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "harness/check/workers.h"
#include "harness/command.h"
#include "harness/command_flags.h"
#include "harness/command_store.h"

namespace shardproof {
namespace {

double gibibytes(double bytes) { return bytes / (1 << 30); }

template <class Entry>
int print_places(std::string_view what, const std::vector<Entry>& entries, const Tables& tables) {
  int usable = 0;
  for (const Entry& entry : entries) {
    const std::string why = why_not(entry, tables.devices);
    usable += why.empty();
    fmt::print("{:<7} {:<11} {}\n", what, entry.name,
               why.empty() ? "usable" : "not usable: " + why);
  }
  return usable;
}

std::string limit_text(int resource) {
  rlimit limit{};
  getrlimit(static_cast<__rlimit_resource>(resource), &limit);
  return limit.rlim_cur == RLIM_INFINITY
             ? "unlimited"
             : fmt::format("{:.1f} GiB", gibibytes(static_cast<double>(limit.rlim_cur)));
}

int run(const Tables& tables) {
  for (const auto& [key, value] : environment()) fmt::print("{:<18} {}\n", key, value);
  const int count = processors();
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  fmt::print("{:<18} {}\n", "processors", count);
  fmt::print("{:<18} {:.1f} GiB; address space {}, for each of {} workers {:.1f} GiB\n", "memory",
             gibibytes(memory), limit_text(RLIMIT_AS), count,
             gibibytes(static_cast<double>(fair_memory(count))));
  fmt::print("\n");
  const int worlds = print_places("world", tables.worlds, tables);
  const int devices = print_places("device", tables.devices, tables);
  for (const DeviceEntry& entry : tables.devices) {
    if (entry.about == nullptr) continue;
    fmt::print("\nabout device {}\n", entry.name);
    for (const std::string& line : entry.about()) fmt::print("  {}\n", line);
  }
  fmt::print("\n{} subjects and mutants, {} properties, {} operators, {} masks\n",
             tables.subjects.size(), tables.properties.size(), tables.operators.size(),
             tables.masks.size());
  return worlds > 0 && devices > 0 ? kExitHolds : kExitUnusable;
}

}  // namespace

Command doctor_command(CLI::App& program, const Tables& tables) {
  CLI::App* app =
      program.add_subcommand("doctor", "what this machine can run, and why not the rest");
  app->footer("Example:\n  shardproof doctor");
  return {app, [&tables] { return run(tables); }};
}

}  // namespace shardproof
