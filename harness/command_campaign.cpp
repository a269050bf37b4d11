#include "harness/command_campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "golden/golden.h"
#include "harness/command_store.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

// Flags without any say in what is drawn and judged. A journal does not keep the first ones; the
// others it does, but a command line may change them.
constexpr std::string_view kPassing[] = {"--help",  "--jobs",    "--json",
                                         "--junit", "--journal", "--resume"};
constexpr std::string_view kChangeable[] = {"--goldens-out", "--require-all"};

template <class Names>
bool is_one_of(std::string_view name, const Names& names) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

std::string value_of(const CLI::Option& option) {
  if (option.count() == 0) return option.get_default_str();
  std::string result;
  for (const std::string& each : option.results()) result += (result.empty() ? "" : ",") + each;
  return result;
}

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

}  // namespace

CampaignOptions CampaignFlags::options() const {
  CampaignOptions result;
  result.seed = seed;
  if (!cases.empty()) {
    const char* end = cases.data() + cases.size();
    const auto [rest, error] = std::from_chars(cases.data(), end, result.cases.emplace());
    if (error != std::errc() || rest != end) {
      throw Error(fmt::format("--cases: '{}' is not a number of cases", cases));
    }
  }
  if (!time.empty()) result.seconds = parse_duration("--time", time);
  if (cases.empty() && time.empty()) result.seconds = 60;
  result.part = Part::parse(part);
  if (require_all && result.part.count > 1) {
    throw Error(
        "--require-all: a part may rightly pass over something; give it to `shardproof merge` with "
        "the journals of all parts");
  }
  result.jobs = workers.count();
  result.limits = workers.limits();
  result.goldens = goldens_out;
  return result;
}

std::vector<StoredCase> CampaignFlags::stored_cases(const Tables& tables) const {
  std::vector<StoredCase> stored;
  const std::filesystem::path own = SHARDPROOF_CASES;
  if (!regressions.empty()) {
    add_stored(stored, regressions);
  } else if (tables.plugged.empty() && std::filesystem::exists(own)) {
    add_stored(stored, own);
  }
  for (const std::string& path : goldens) add_stored(stored, path);
  for (const StoredCase& each : stored) {
    try {
      parse_case(each.text, tables.vocabulary());
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", each.origin, error.what()));
    }
  }
  return stored;
}

void add_campaign_flags(CLI::App& app, CampaignFlags& flags) {
  app.add_option("--time", flags.time, "stop after this long (default: 60s without --cases)")
      ->type_name("DURATION");
  app.add_option("--cases", flags.cases, "stop after this many generated cases")->type_name("N");
  app.add_option("--seed", flags.seed, "a number, or any text such as a commit hash")
      ->type_name("SEED")
      ->capture_default_str();
  app.add_option("--part", flags.part,
                 "only the I-th of N disjoint parts of the campaign's cases; `shardproof merge` "
                 "joins what the parts found")
      ->type_name("I/N")
      ->capture_default_str();
  add_worker_flags(app, flags.workers);
  add_restrictions(app, flags.restrictions);
  app.add_option("--regressions", flags.regressions,
                 "folder of .case files that run first (default: the project's own)")
      ->type_name("DIR");
  app.add_option("--goldens", flags.goldens, "goldens (files or folders) that run first")
      ->delimiter(',')
      ->type_name("PATH,...");
  app.add_option("--goldens-out", flags.goldens_out, "folder for goldens of what is found")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_flag("--require-all", flags.require_all,
               "exit 2 unless every subject, property and pair of values was judged; of parts it "
               "is asked together, in `shardproof merge`");
}

JournalHeader journal_header(const CLI::App& app, std::vector<StoredCase> stored) {
  auto known = environment();
  JournalHeader header{known["version"], known["commit"], {}, std::move(stored)};
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    const bool is_kept = option->count() > 0 || name == "--seed" || name == "--part";
    if (is_kept && !is_one_of(name, kPassing)) header.flags[name] = value_of(*option);
  }
  return header;
}

void recall_flags(CLI::App& app, const JournalHeader& header) {
  auto known = environment();
  if (header.version != known["version"] || header.commit != known["commit"]) {
    throw Error(fmt::format(
        "the journal is of version {}, commit {}; this program is version {}, commit {}, which may "
        "draw and judge other cases",
        header.version, header.commit, known["version"], known["commit"]));
  }
  for (CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (is_one_of(name, kPassing)) continue;
    const auto kept = header.flags.find(name);
    const std::string meant = kept == header.flags.end() ? option->get_default_str() : kept->second;
    if (option->count() > 0) {
      if (value_of(*option) == meant || is_one_of(name, kChangeable)) continue;
      throw Error(fmt::format("{}={} contradicts the journal, whose campaign has {}", name,
                              value_of(*option),
                              meant.empty() ? "no such flag" : name + "=" + meant));
    }
    if (kept == header.flags.end()) continue;
    option->add_result(meant);
    option->run_callback();
  }
}

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

}  // namespace shardproof
