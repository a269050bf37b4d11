#include <fmt/format.h>

#include <memory>

#include "golden/golden.h"
#include "harness/check/investigate.h"
#include "harness/command.h"
#include "harness/command_flags.h"
#include "harness/command_run.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  shardproof replay golden/found\n"
    "  shardproof replay golden/found/ring_attention-matches_reference-1f3a5b7c.h5\n"
    "  shardproof replay golden/cases/ring.case\n";

struct ReplayFlags {
  std::vector<std::string> paths;
  WorkerFlags workers;
};

struct Counts {
  int failing = 0;
  int passing = 0;
  int unusable = 0;
};

// How a run compares with what a golden says.
std::string comparison(const Golden& golden, const std::string& subject, const CaseResult& result,
                       const Tables& tables) {
  const PropertyResult* failed = result.first_failure();
  if (!failed) {
    return result.overall == VerdictKind::kHolds ? "fixed"
                                                 : fmt::format("fixed ({})", name(result.overall));
  }
  const std::string now = failure_signature(result, subject, tables);
  if (now == signature(subject, golden.property, golden.verdict)) return "still fails";
  return "different: " + now;
}

void report(std::string_view what, const std::string& origin, const CaseResult& result,
            Counts& counts) {
  ++(is_failure(result.overall) ? counts.failing : counts.passing);
  fmt::print("{:<12} {}\n", what, origin);
  const PropertyResult* failed = result.first_failure();
  if (failed && !failed->verdict.message.empty()) {
    fmt::print("  {}\n", failed->verdict.message.substr(0, failed->verdict.message.find('\n')));
  }
}

void replay_golden(const std::filesystem::path& path, IsolatedRuns& runs, const Tables& tables,
                   Counts& counts) {
  const Golden golden = read_golden(path);
  const Case value = parse_case(golden.case_text, tables.vocabulary());
  Item item{.text = golden.case_text};
  if (tables.property(golden.property)) item.property = golden.property;
  const CaseResult result = runs.run(item);
  report(comparison(golden, value.placement.subject, result, tables), path.string(), result,
         counts);
}

void replay_cases(const std::filesystem::path& path, IsolatedRuns& runs, const Tables& tables,
                  Counts& counts) {
  for (const StoredCase& stored : read_case_file(path)) {
    parse_case(stored.text, tables.vocabulary());
    const CaseResult result = runs.run({.text = stored.text});
    report(is_failure(result.overall) ? "still fails" : name(result.overall), stored.origin, result,
           counts);
  }
}

int run(const ReplayFlags& flags, const Tables& tables) {
  IsolatedRuns runs(tables, tables.properties, flags.workers.limits());
  Counts counts;
  for (const std::string& path : flags.paths) {
    for (const std::filesystem::path& file : case_files(path)) {
      try {
        const bool is_text = file.extension() == ".case";
        (is_text ? replay_cases : replay_golden)(file, runs, tables, counts);
      } catch (const Error& error) {
        ++counts.unusable;
        fmt::print("{:<12} {}\n  {}\n", "unreadable", file.string(), error.what());
      }
    }
  }
  fmt::print("\n{} failing, {} not failing, {} unreadable\n", counts.failing, counts.passing,
             counts.unusable);
  if (counts.failing > 0) return kExitFalsified;
  return counts.unusable == 0 && counts.passing > 0 ? kExitHolds : kExitUnusable;
}

}  // namespace

Command replay_command(CLI::App& program, const Tables& tables) {
  CLI::App* app = program.add_subcommand(
      "replay", "run stored failures again: still fails, fixed or different");
  app->footer(kExamples);
  auto flags = std::make_shared<ReplayFlags>();
  app->add_option("paths", flags->paths, "goldens (.h5), .case files, or folders of them")
      ->required()
      ->type_name("PATH");
  add_worker_flags(*app, flags->workers);
  return {app, [flags, &tables] { return run(*flags, tables); }};
}

}  // namespace shardproof
