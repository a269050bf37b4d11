#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <memory>

#include "harness/check/journal.h"
#include "harness/command.h"
#include "harness/command_campaign.h"
#include "harness/command_store.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  shardproof fuzz --time=60s\n"
    "  shardproof fuzz --cases=20000 --seed=7 --jobs=4 --json=verdicts.jsonl\n"
    "  shardproof fuzz --subject=ring_attention --mask=causal,window --mesh=cp=2..8\n"
    "  shardproof fuzz --operator=mlp --dtype=bf16 --property=matches_reference\n"
    "  shardproof fuzz --time=8h --journal=night.jsonl; shardproof fuzz --resume=night.jsonl\n"
    "  shardproof fuzz --time=1h --part=2/4 --journal=part2.jsonl\n";

struct FuzzFlags {
  CampaignFlags campaign;
  std::string json;
  std::string junit;
  std::string journal;
  std::string resume;
};

// Where verdicts go: the journal first, so that nothing is shown that it does not hold.
std::vector<std::unique_ptr<Sink>> make_sinks(const FuzzFlags& flags, const CLI::App& app,
                                              const Journal* resumed,
                                              const std::vector<StoredCase>& stored) {
  std::vector<std::unique_ptr<Sink>> sinks;
  if (resumed) {
    sinks.push_back(resume_journal_sink(flags.resume, *resumed));
  } else if (!flags.journal.empty()) {
    sinks.push_back(make_journal_sink(flags.journal, journal_header(app, stored)));
  }
  sinks.push_back(make_console_sink(std::cout, isatty(STDOUT_FILENO) != 0));
  if (!flags.json.empty()) sinks.push_back(make_json_sink(flags.json, resumed != nullptr));
  if (!flags.junit.empty()) sinks.push_back(make_junit_sink(flags.junit));
  return sinks;
}

int exit_code(const Tally& tally, const FuzzFlags& flags,
              const std::vector<std::unique_ptr<Sink>>& sinks) {
  bool is_complete = true;
  for (const auto& sink : sinks) {
    if (sink->trouble().empty()) continue;
    is_complete = false;
    fmt::print(stderr, "shardproof: NOT STORED: {}\n", sink->trouble());
  }
  if (tally.failing() + tally.excesses() > 0) return kExitFalsified;
  if (!is_complete) return kExitUnusable;
  if (flags.campaign.require_all) require_everything(tally);
  return tally.judged() > 0 ? kExitHolds : kExitUnusable;
}

int run(FuzzFlags& flags, CLI::App& app, const Tables& tables) {
  std::optional<Journal> journal;
  if (!flags.resume.empty()) {
    if (!flags.journal.empty()) throw Error("--journal: --resume goes on in its own file");
    journal = read_journal(flags.resume);
    recall_flags(app, journal->header);
  }
  const Domain domain = make_domain(flags.campaign.restrictions, tables);
  Tables limited = tables;
  limited.most_ranks = static_cast<int>(domain.most_ranks);
  GoldenStore store(flags.campaign.seed);
  CampaignOptions options = flags.campaign.options();
  options.stored = journal ? journal->header.stored : flags.campaign.stored_cases(tables);
  options.store = &store;
  std::optional<Tally> known;
  if (journal) options.resumed = &known.emplace(journal->read_tally(domain, limited));
  const auto sinks = make_sinks(flags, app, journal ? &*journal : nullptr, options.stored);
  std::vector<Sink*> views;
  for (const auto& sink : sinks) views.push_back(sink.get());

  fmt::print("shardproof fuzz: seed {}, {} workers, {} subjects, {} properties, {} stored cases\n",
             options.seed, options.jobs, domain.subjects.size(), domain.properties.size(),
             options.stored.size());
  if (known) fmt::print("resumed after {} cases, {} failing\n", known->cases(), known->failing());
  std::cout.flush();
  std::fflush(stdout);
  return exit_code(run_campaign(limited, domain, options, views), flags, sinks);
}

}  // namespace

Command fuzz_command(CLI::App& program, const Tables& tables) {
  CLI::App* app =
      program.add_subcommand("fuzz", "search for failing cases; shrink and store what is found");
  app->footer(kExamples);
  auto flags = std::make_shared<FuzzFlags>();
  add_campaign_flags(*app, flags->campaign);
  app->add_option("--json", flags->json, "write JSON lines: verdicts, failures, summary")
      ->type_name("FILE");
  app->add_option("--junit", flags->junit, "write JUnit XML")->type_name("FILE");
  app->add_option("--journal", flags->journal,
                  "write down what the campaign knows, so that it can be resumed and merged")
      ->type_name("FILE");
  app->add_option("--resume", flags->resume,
                  "go on with the campaign of a journal, in that file, with its flags; a --json "
                  "file is continued, too")
      ->type_name("FILE");
  return {app, [flags, app, &tables] { return run(*flags, *app, tables); }};
}

}  // namespace shardproof
