#include "harness/command_flags.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "harness/model/require.h"

namespace shardproof {

double parse_duration(std::string_view flag, std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [unit_at, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(unit_at, static_cast<std::size_t>(end - unit_at));
  const double scale = unit == "ms"  ? 1e-3
                       : unit == "s" ? 1
                       : unit == "m" ? 60
                       : unit == "h" ? 3600
                                     : 0;
  if (error != std::errc() || scale == 0 || !(value > 0) || !(value * scale < 1e8)) {
    throw Error(fmt::format(
        "{}: '{}' is not a duration; write a number above 0 and a unit, as in 500ms, 60s, 2m or 1h",
        flag, text));
  }
  return value * scale;
}

int processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

void add_restrictions(CLI::App& app, Restrictions& restrictions) {
  const auto list = [&](const char* flag, std::vector<std::string>& target, const char* help) {
    app.add_option(flag, target, help)->delimiter(',')->type_name("NAME,...");
  };
  list("--subject", restrictions.subjects,
       "only these subjects (default: all that are no mutants)");
  list("--operator", restrictions.operators, "only subjects that compute these operators");
  list("--property", restrictions.properties, "judge only these properties");
  list("--mask", restrictions.masks, "draw only these masks");
  list("--dtype", restrictions.dtypes, "draw only these dtypes");
  list("--data", restrictions.data, "draw only these data recipes");
  list("--layout", restrictions.layouts, "draw only these layouts");
  list("--views", restrictions.views, "draw only these arrangements in memory");
  app.add_option("--mesh", restrictions.mesh, "ranks of each axis, as in tp=1..4,cp=8")
      ->type_name("AXIS=N..M,...");
  app.add_option("--size", restrictions.size, "small (tokens up to 64) or medium (up to 2048)")
      ->type_name("SIZE")
      ->capture_default_str();
  app.add_option("--world", restrictions.world, "what runs the ranks")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--ranks", restrictions.ranks,
                 "at most so many ranks a case (default: 16 simulated ones, 4 processes)")
      ->type_name("N");
  app.add_option("--device", restrictions.device, "what computes")
      ->type_name("NAME")
      ->capture_default_str();
}

int WorkerFlags::count() const {
  constexpr int kMostJobs = 1024;
  if (jobs < 0 || jobs > kMostJobs) {
    throw Error(fmt::format("--jobs: {} is not a number from 1 to {}, or 0 for one a processor",
                            jobs, kMostJobs));
  }
  return jobs > 0 ? jobs : processors();
}

WorkerLimits WorkerFlags::limits() const {
  return {parse_duration("--case-timeout", case_timeout), fair_memory(count())};
}

void add_worker_flags(CLI::App& app, WorkerFlags& flags) {
  app.add_option("--jobs", flags.jobs, "worker processes (default: one a processor)")
      ->type_name("N");
  app.add_option("--case-timeout", flags.case_timeout,
                 "least time after which a case counts as timed out; large cases get more")
      ->type_name("DURATION")
      ->capture_default_str();
}

std::vector<StoredCase> read_case_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw Error(fmt::format("cannot read {}", path.string()));
  std::vector<StoredCase> result;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    line.resize(std::min(line.find('#'), line.size()));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    result.push_back({line, fmt::format("{}:{}", path.string(), number)});
  }
  return result;
}

std::vector<std::filesystem::path> case_files(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  if (!fs::exists(path)) throw Error(fmt::format("{} does not exist", path.string()));
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> result;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
    const fs::path extension = entry.path().extension();
    const bool known = extension == ".case" || extension == ".h5";
    if (known && entry.is_regular_file()) result.push_back(entry.path());
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace shardproof
