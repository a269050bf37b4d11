#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>

#include "golden/golden.h"
#include "harness/check/investigate.h"
#include "harness/check/journal.h"
#include "harness/check/junit.h"
#include "harness/command.h"
#include "harness/command_campaign.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExamples =
    "Examples:\n"
    "  shardproof merge merged part1.jsonl part2.jsonl part3.jsonl part4.jsonl\n"
    "  shardproof merge merged job-1/ job-2/ --require-all\n"
    "Inputs are journals, JUnit files (.xml), goldens (.h5), or folders of them; none is changed.\n"
    "OUT gets journals that can be merged again, summary.jsonl, junit.xml and golden/.\n";

struct MergeFlags {
  fs::path out;
  std::vector<std::string> inputs;
  bool require_all = false;
};

struct StoredGolden {
  fs::path path;
  std::string case_text;
  std::string name;
};

struct Inputs {
  std::map<fs::path, Journal> journals;
  std::map<fs::path, Junit> junits;
  std::map<std::string, std::vector<StoredGolden>> goldens;  // by signature
};

// One campaign, perhaps a part of one.
struct Campaign {
  fs::path path;
  CampaignFlags flags;
  Part part;
};

Junit read_junit(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  try {
    return Junit::parse(text.str());
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", path.string(), error.what()));
  }
}

void add_golden(const fs::path& path, const Tables& tables, Inputs& inputs) {
  try {
    const Golden golden = read_golden(path);
    const Case value = parse_case(golden.case_text, tables.vocabulary());
    const std::string& subject = value.placement.subject;
    const std::string key = signature(subject, golden.property, golden.verdict);
    inputs.goldens[key].push_back(
        {path, golden.case_text, golden_name(subject, golden.property, key)});
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", path.string(), error.what()));
  }
}

// False when it is none of the files that can be merged.
bool add_file(const fs::path& path, const Tables& tables, Inputs& inputs) {
  if (path.extension() == ".h5") {
    add_golden(path, tables, inputs);
  } else if (path.extension() == ".xml") {
    inputs.junits.emplace(path, read_junit(path));
  } else if (is_journal(path)) {
    inputs.journals.emplace(path, read_journal(path));
  } else {
    return false;
  }
  return true;
}

Inputs read_inputs(const MergeFlags& flags, const Tables& tables) {
  Inputs inputs;
  for (const std::string& text : flags.inputs) {
    const fs::path path = fs::weakly_canonical(text);
    if (!fs::exists(path)) throw Error(fmt::format("{} does not exist", text));
    if (!fs::is_directory(path)) {
      if (add_file(path, tables, inputs)) continue;
      throw Error(fmt::format("{} is no journal, no JUnit file (.xml) and no golden (.h5)", text));
    }
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) add_file(entry.path(), tables, inputs);
    }
  }
  if (inputs.journals.empty() && inputs.junits.empty() && inputs.goldens.empty()) {
    throw Error("there is no journal, JUnit file or golden to merge");
  }
  return inputs;
}

// Flags in which campaigns over the same domain may differ.
std::map<std::string, std::string> domain_flags(const JournalHeader& header) {
  std::map<std::string, std::string> flags = header.flags;
  for (const char* name : {"--seed", "--part", "--time", "--cases", "--case-timeout",
                           "--regressions", "--goldens", "--goldens-out", "--require-all"}) {
    flags.erase(name);
  }
  return flags;
}

std::vector<Campaign> campaigns_of(const Inputs& inputs) {
  std::vector<Campaign> result;
  const Journal* first = nullptr;
  for (const auto& [path, journal] : inputs.journals) {
    Campaign campaign{path, {}, {}};
    CLI::App app;
    add_campaign_flags(app, campaign.flags);
    try {
      recall_flags(app, journal.header);
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", path.string(), error.what()));
    }
    campaign.part = Part::parse(campaign.flags.part);
    if (first && domain_flags(first->header) != domain_flags(journal.header)) {
      throw Error(fmt::format("{} and {} draw from different cases: their flags differ",
                              inputs.journals.begin()->first.string(), path.string()));
    }
    if (!first) first = &journal;
    for (const Campaign& other : result) {
      const bool meets = other.part.count != campaign.part.count || other.part == campaign.part;
      if (other.flags.seed != campaign.flags.seed || !meets) continue;
      throw Error(fmt::format("{} and {} judged the same cases: seed {}, parts {} and {}",
                              other.path.string(), path.string(), other.flags.seed,
                              other.part.text(), campaign.part.text()));
    }
    result.push_back(std::move(campaign));
  }
  return result;
}

// What of the campaigns was not judged, a line each.
std::vector<std::string> gaps(const std::vector<Campaign>& campaigns, const Inputs& inputs) {
  std::vector<std::string> result;
  std::map<std::string, std::set<std::uint64_t>> parts;
  std::map<std::string, std::uint64_t> counts;
  for (const Campaign& each : campaigns) {
    parts[each.flags.seed].insert(each.part.index);
    counts[each.flags.seed] = each.part.count;
    if (inputs.journals.at(each.path).ended) continue;
    result.push_back(fmt::format("{} ended early: shardproof fuzz --resume={}", each.path.string(),
                                 each.path.string()));
  }
  for (const auto& [seed, count] : counts) {
    for (std::uint64_t index = 0; index < count; ++index) {
      if (parts[seed].contains(index)) continue;
      result.push_back(fmt::format("seed {}: part {} is missing", seed, Part{index, count}.text()));
    }
  }
  return result;
}

// OUT is new, so that nothing is replaced.
void make_folder(const fs::path& out) {
  if (fs::exists(out) && !(fs::is_directory(out) && fs::is_empty(out))) {
    throw Error(fmt::format("{} exists; name a new folder", out.string()));
  }
  fs::create_directories(out);
}

// One a signature: that of the failure's own case, where there is one.
void place_goldens(const Inputs& inputs, const fs::path& folder, std::vector<Failure>& failures) {
  if (!inputs.goldens.empty()) fs::create_directories(folder);
  for (const auto& [key, goldens] : inputs.goldens) {
    const StoredGolden* chosen = &goldens.front();
    const fs::path target = folder / chosen->name;
    for (Failure& failure : failures) {
      if (failure.signature != key) continue;
      failure.golden = target.string();
      for (const StoredGolden& each : goldens) {
        if (each.case_text == failure.shrunk) chosen = &each;
      }
    }
    fs::copy_file(chosen->path, target);
  }
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  if (!file) throw Error(fmt::format("cannot write {}", path.string()));
}

// The sum of all campaigns' tallies.
Tally join_journals(const std::vector<Campaign>& campaigns, const Inputs& inputs,
                    const Domain& domain, const Tables& tables) {
  Tally sum(domain, tables);
  std::set<std::string> seeds;
  for (const Campaign& each : campaigns) {
    sum.join(inputs.journals.at(each.path).read_tally(domain, tables));
    if (!seeds.insert(each.flags.seed).second) continue;
    sum.seed += (sum.seed.empty() ? "" : ", ") + each.flags.seed;
  }
  return sum;
}

// Journals of one record each, which can be merged again.
void write_journals(const Inputs& inputs, const fs::path& out, const Domain& domain,
                    const Tables& tables) {
  int position = 0;
  for (const auto& [path, journal] : inputs.journals) {
    const auto sink =
        make_journal_sink(out / fmt::format("journal-{}.jsonl", ++position), journal.header);
    Tally tally = journal.read_tally(domain, tables);
    tally.interrupted = !journal.ended;
    sink->on_end(tally);
    if (!sink->trouble().empty()) throw Error(sink->trouble());
  }
}

void report(const Tally& tally, const fs::path& out) {
  const auto json = make_json_sink((out / "summary.jsonl").string());
  for (const Failure& failure : tally.failures) json->on_failure(failure, tally);
  json->on_end(tally);
  make_console_sink(std::cout, false)->on_end(tally);
  std::cout.flush();
  if (!json->trouble().empty()) throw Error(json->trouble());
}

int run(const MergeFlags& flags, const Tables& tables) {
  const Inputs inputs = read_inputs(flags, tables);
  const std::vector<Campaign> campaigns = campaigns_of(inputs);
  std::optional<Domain> domain;
  std::optional<Tally> tally;
  if (!campaigns.empty()) {
    domain = make_domain(campaigns.front().flags.restrictions, tables);
    tally.emplace(join_journals(campaigns, inputs, *domain, tables));
  }
  make_folder(flags.out);
  if (domain) write_journals(inputs, flags.out, *domain, tables);
  std::vector<Failure> failures;
  place_goldens(inputs, flags.out / "golden", tally ? tally->failures : failures);
  Junit junit;
  bool fails = !inputs.goldens.empty();
  bool is_judged = false;
  if (tally) {
    junit = Junit::of(*tally);
    fails = fails || tally->failing() + tally->excesses() > 0;
    is_judged = tally->judged() > 0;
  }
  for (const auto& [path, each] : inputs.junits) junit.join(each);
  for (const auto& [key, each] : junit.cases) {
    fails = fails || each.fails;
    is_judged = is_judged || each.is_judged;
  }
  if (!junit.cases.empty()) write_text(flags.out / "junit.xml", junit.text());
  if (tally) report(*tally, flags.out);
  const std::vector<std::string> missing = gaps(campaigns, inputs);
  fmt::print("\n{}: {} journals, {} JUnit files, {} distinct goldens\n", flags.out.string(),
             campaigns.size(), inputs.junits.size(), inputs.goldens.size());
  for (const std::string& line : missing) fmt::print("INCOMPLETE: {}\n", line);
  if (fails) return kExitFalsified;
  if (flags.require_all && tally) require_everything(*tally);
  return missing.empty() && is_judged ? kExitHolds : kExitUnusable;
}

}  // namespace

Command merge_command(CLI::App& program, const Tables& tables) {
  CLI::App* app = program.add_subcommand(
      "merge", "join journals, JUnit files and goldens of several campaigns or parts of one");
  app->footer(kExamples);
  auto flags = std::make_shared<MergeFlags>();
  app->add_option("out", flags->out, "a new folder")->required()->type_name("OUT");
  app->add_option("inputs", flags->inputs, "journals, JUnit files, goldens, folders")
      ->required()
      ->type_name("INPUT...");
  app->add_flag("--require-all", flags->require_all,
                "exit 2 unless every subject, property and pair of values was judged by some part");
  return {app, [flags, &tables] { return run(*flags, tables); }};
}

}  // namespace shardproof
