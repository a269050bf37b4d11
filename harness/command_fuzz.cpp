#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <memory>

#include "golden/golden.h"
#include "harness/command.h"
#include "harness/command_flags.h"
#include "harness/command_store.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  shardproof fuzz --time=60s\n"
    "  shardproof fuzz --cases=20000 --seed=7 --jobs=4 --json=verdicts.jsonl\n"
    "  shardproof fuzz --subject=ring_attention --mask=causal,window --mesh=cp=2..8\n"
    "  shardproof fuzz --operator=mlp --dtype=bf16 --property=matches_reference\n";

struct FuzzFlags {
  Restrictions restrictions;
  WorkerFlags workers;
  std::string time;
  std::uint64_t cases = 0;
  std::string seed = "0";
  std::string regressions;  // "": those of the project, where there are any
  std::vector<std::string> goldens;
  std::string goldens_out = "golden/found";
  std::string json;
  std::string junit;
  bool require_all = false;
};

// Goldens that no longer parse are the campaign's business, too: an Error names the file.
void add_stored(std::vector<StoredCase>& stored, const std::filesystem::path& path) {
  for (const std::filesystem::path& file : case_files(path)) {
    if (file.extension() == ".case") {
      for (StoredCase& each : read_case_file(file)) stored.push_back(std::move(each));
    } else {
      stored.push_back({read_golden(file).case_text, file.string()});
    }
  }
}

std::vector<StoredCase> stored_cases(const FuzzFlags& flags, const Tables& tables) {
  std::vector<StoredCase> stored;
  const std::filesystem::path own = SHARDPROOF_CASES;
  if (!flags.regressions.empty()) {
    add_stored(stored, flags.regressions);
  } else if (std::filesystem::exists(own)) {
    add_stored(stored, own);
  }
  for (const std::string& path : flags.goldens) add_stored(stored, path);
  for (const StoredCase& each : stored) {
    try {
      parse_case(each.text, tables.vocabulary());
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", each.origin, error.what()));
    }
  }
  return stored;
}

// Required classes: a campaign that passed over some of them proves less than it seems to.
void require_everything(const Tally& tally) {
  const auto demand = [](std::string_view what, const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    if (list.empty()) return;
    throw Error(fmt::format("--require-all: no case was judged of the {} {}; give more --time",
                            what, list));
  };
  demand("subjects", tally.idle_subjects());
  demand("properties", tally.idle_properties());
  const Coverage::Count pairs = tally.coverage.total();
  if (pairs.covered == pairs.possible) return;
  throw Error(fmt::format("--require-all: {} of {} pairs of values were judged; give more --time",
                          pairs.covered, pairs.possible));
}

int run(const FuzzFlags& flags, const Tables& tables, bool has_cases) {
  const Domain domain = make_domain(flags.restrictions, tables);
  Tables limited = tables;
  limited.most_ranks = static_cast<int>(domain.most_ranks);
  GoldenStore store(flags.seed);
  CampaignOptions options;
  options.seed = flags.seed;
  if (has_cases) options.cases = flags.cases;
  if (!flags.time.empty()) options.seconds = parse_duration("--time", flags.time);
  if (!has_cases && flags.time.empty()) options.seconds = 60;
  options.jobs = flags.workers.count();
  options.limits = flags.workers.limits();
  options.stored = stored_cases(flags, tables);
  options.goldens = flags.goldens_out;
  options.store = &store;

  std::vector<std::unique_ptr<Sink>> sinks;
  sinks.push_back(make_console_sink(std::cout, isatty(STDOUT_FILENO) != 0));
  if (!flags.json.empty()) sinks.push_back(make_json_sink(flags.json));
  if (!flags.junit.empty()) sinks.push_back(make_junit_sink(flags.junit));
  std::vector<Sink*> views;
  for (const auto& sink : sinks) views.push_back(sink.get());

  fmt::print("shardproof fuzz: seed {}, {} workers, {} subjects, {} properties, {} stored cases\n",
             flags.seed, options.jobs, domain.subjects.size(), domain.properties.size(),
             options.stored.size());
  std::cout.flush();
  std::fflush(stdout);
  const Tally tally = run_campaign(limited, domain, options, views);
  if (tally.failing() + tally.excesses() > 0) return kExitFalsified;
  if (flags.require_all) require_everything(tally);
  return tally.judged() > 0 ? kExitHolds : kExitUnusable;
}

}  // namespace

Command fuzz_command(CLI::App& program, const Tables& tables) {
  CLI::App* app =
      program.add_subcommand("fuzz", "search for failing cases; shrink and store what is found");
  app->footer(kExamples);
  auto flags = std::make_shared<FuzzFlags>();
  app->add_option("--time", flags->time, "stop after this long (default: 60s without --cases)")
      ->type_name("DURATION");
  CLI::Option* cases =
      app->add_option("--cases", flags->cases, "stop after this many generated cases")
          ->type_name("N");
  app->add_option("--seed", flags->seed, "a number, or any text such as a commit hash")
      ->type_name("SEED")
      ->capture_default_str();
  add_worker_flags(*app, flags->workers);
  add_restrictions(*app, flags->restrictions);
  app->add_option("--regressions", flags->regressions,
                  "folder of .case files that run first (default: the project's own)")
      ->type_name("DIR");
  app->add_option("--goldens", flags->goldens, "goldens (files or folders) that run first")
      ->delimiter(',')
      ->type_name("PATH,...");
  app->add_option("--goldens-out", flags->goldens_out, "folder for goldens of what is found")
      ->type_name("DIR")
      ->capture_default_str();
  app->add_option("--json", flags->json, "write JSON lines: verdicts, failures, summary")
      ->type_name("FILE");
  app->add_flag("--require-all", flags->require_all,
                "exit 2 unless every subject, property and pair of values was judged");
  app->add_option("--junit", flags->junit, "write JUnit XML")->type_name("FILE");
  return {app, [flags, cases, &tables] { return run(*flags, tables, cases->count() > 0); }};
}

}  // namespace shardproof
