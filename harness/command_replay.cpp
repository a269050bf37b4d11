#include <fmt/format.h>

#include <cstdio>
#include <deque>
#include <memory>
#include <optional>

#include "golden/golden.h"
#include "harness/check/evaluator.h"
#include "harness/check/investigate.h"
#include "harness/check/workers.h"
#include "harness/command.h"
#include "harness/command_flags.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  shardproof replay golden/found --jobs=4\n"
    "  shardproof replay golden/found/ring_attention-matches_reference-1f3a5b7c.h5\n"
    "  shardproof replay golden/cases/ring.case\n";

struct ReplayFlags {
  std::vector<std::string> paths;
  WorkerFlags workers;
};

// One stored case on its way: read, run, reported.
struct Replayed {
  std::size_t file = 0;  // counted from 1
  std::string origin{};
  std::string signature{};  // what its golden says of the failure; empty for a line of a .case file
  std::string subject{};
  std::string trouble{};               // why it cannot be run
  std::optional<CaseResult> result{};  // once it was run
};

// Runs what files hold, on all workers, and reports it in the order of the files. Of a folder of
// any size no more is in memory than a few cases a worker.
class Replay {
 public:
  Replay(std::vector<std::filesystem::path> files, const WorkerFlags& flags, const Tables& tables)
      : tables_(tables),
        files_(std::move(files)),
        evaluator_(tables, tables.properties, nullptr, nullptr),
        workers_(evaluator_, flags.count(), flags.limits()),
        most_under_way_(kUnderWayEach * static_cast<std::size_t>(flags.count())) {}

  int run() {
    for (;;) {
      while (under_way_.size() < most_under_way_ && next_file_ < files_.size()) read_next();
      report_finished();
      if (under_way_.empty() && next_file_ == files_.size()) break;
      for (Finished& each : workers_.wait(kLongestWait)) {
        under_way_.at(each.item.number - reported_).result = std::move(each.result);
      }
    }
    fmt::print("\n{} failing, {} not failing, {} unreadable\n", failing_, passing_, unusable_);
    if (failing_ > 0) return kExitFalsified;
    return unusable_ == 0 && passing_ > 0 ? kExitHolds : kExitUnusable;
  }

 private:
  static constexpr std::size_t kUnderWayEach = 8;
  static constexpr double kLongestWait = 1;  // seconds

  void read_next() {
    const std::filesystem::path& file = files_[next_file_++];
    try {
      file.extension() == ".case" ? read_cases(file) : read_one(file);
    } catch (const Error& error) {
      under_way_.push_back({.file = next_file_, .origin = file, .trouble = error.what()});
    }
  }

  void read_one(const std::filesystem::path& file) {
    const Golden golden = read_golden(file);
    Replayed next{.file = next_file_, .origin = file};
    next.subject = parse_case(golden.case_text, tables_.vocabulary()).placement.subject;
    next.signature = signature(next.subject, golden.property, golden.verdict);
    const bool is_known = tables_.property(golden.property) != nullptr;
    give(std::move(next), golden.case_text, is_known ? golden.property : "");
  }

  void read_cases(const std::filesystem::path& file) {
    for (const StoredCase& stored : read_case_file(file)) {
      const Case value = parse_case(stored.text, tables_.vocabulary());
      give({.file = next_file_, .origin = stored.origin, .subject = value.placement.subject},
           stored.text, "");
    }
  }

  void give(Replayed next, const std::string& text, const std::string& property) {
    const std::uint64_t number = reported_ + under_way_.size();
    under_way_.push_back(std::move(next));
    workers_.give({{.number = number, .text = text, .property = property}});
  }

  void report_finished() {
    while (!under_way_.empty()) {
      Replayed& first = under_way_.front();
      if (first.trouble.empty() && !first.result) break;
      if (first.result && !first.result->trouble.empty()) first.trouble = first.result->trouble;
      report(first);
      under_way_.pop_front();
      ++reported_;
    }
    std::fflush(stdout);
  }

  void report(const Replayed& replayed) {
    std::string what = "unreadable";
    std::string why = replayed.trouble;
    if (!why.empty()) {
      ++unusable_;
    } else {
      const CaseResult& result = *replayed.result;
      ++(is_failure(result.overall) ? failing_ : passing_);
      what = comparison(replayed);
      if (const PropertyResult* failed = result.first_failure()) why = failed->verdict.message;
    }
    fmt::print("{:>{}} of {}  {:<12} {}\n", replayed.file, std::to_string(files_.size()).size(),
               files_.size(), what, replayed.origin);
    if (!why.empty()) fmt::print("  {}\n", why.substr(0, why.find('\n')));
  }

  // How a run compares with what was stored.
  std::string comparison(const Replayed& replayed) const {
    const CaseResult& result = *replayed.result;
    const bool fails = result.first_failure() != nullptr;
    const std::string now(name(result.overall));
    if (replayed.signature.empty()) return fails ? "still fails" : now;
    if (!fails) return result.overall == VerdictKind::kHolds ? "fixed" : "fixed (" + now + ")";
    const std::string signature = failure_signature(result, replayed.subject, tables_);
    return signature == replayed.signature ? "still fails" : "different: " + signature;
  }

  const Tables& tables_;
  std::vector<std::filesystem::path> files_;
  CaseEvaluator evaluator_;
  Workers workers_;
  std::size_t most_under_way_;
  std::deque<Replayed> under_way_;
  std::size_t next_file_ = 0;
  std::uint64_t reported_ = 0;
  int failing_ = 0;
  int passing_ = 0;
  int unusable_ = 0;
};

int run(const ReplayFlags& flags, const Tables& tables) {
  std::vector<std::filesystem::path> files;
  for (const std::string& path : flags.paths) {
    const std::vector<std::filesystem::path> found = case_files(path);
    files.insert(files.end(), found.begin(), found.end());
  }
  return Replay(std::move(files), flags.workers, tables).run();
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
