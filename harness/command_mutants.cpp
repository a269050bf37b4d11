#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/command.h"
#include "harness/command_flags.h"
#include "harness/command_store.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  shardproof mutants\n"
    "  shardproof mutants --time=10s --only=row_bias_on_every_rank --json=mutants.jsonl\n";

struct MutantFlags {
  std::vector<std::string> only;
  WorkerFlags workers;
  std::string time = "60s";
  std::string seed = "0";
  std::string goldens_out;
  std::string json;
  bool any = false;
};

// What a campaign against one mutant found.
struct Hunt {
  const Subject* mutant = nullptr;
  bool killed = false;            // by the property that it names
  std::set<std::string> killers;  // every property that falsified one of its cases
  std::uint64_t cases = 0;        // until killed
  double seconds = 0;
  Failure failure;  // of the named killer, else of any
  bool has_failure = false;
};

// An empty `property` stands for any.
bool falsifies(const CaseResult& result, std::string_view property, const Tables& tables) {
  return std::any_of(result.properties.begin(), result.properties.end(), [&](const auto& each) {
    const bool asked = property.empty() || property_name(each.property, tables) == property;
    return asked && is_failure(each.verdict.kind);
  });
}

class KillerSink : public Sink {
 public:
  KillerSink(Hunt& hunt, std::string_view killer) : hunt_(hunt), killer_(killer) {}

  void on_case(const Judged& judged, const Tally& tally) override {
    for (const PropertyResult& each : judged.result.properties) {
      if (!is_failure(each.verdict.kind)) continue;
      hunt_.killers.insert(std::string(property_name(each.property, tally.tables)));
    }
    if (hunt_.killed || !falsifies(judged.result, killer_, tally.tables)) return;
    hunt_.killed = true;
    hunt_.cases = tally.cases();
    hunt_.seconds = tally.seconds;
  }

 private:
  Hunt& hunt_;
  std::string_view killer_;
};

Hunt hunt(const Subject& mutant, const MutantFlags& flags, const std::filesystem::path& goldens,
          const Tables& tables) {
  Hunt result;
  result.mutant = &mutant;
  // The named killer looks first, so that its failure is the one that is shrunk.
  Tables reordered = tables;
  std::stable_partition(
      reordered.properties.begin(), reordered.properties.end(),
      [&](const Property* property) { return property->name == mutant.fault->killer; });
  Restrictions restrictions;
  restrictions.subjects = {std::string(mutant.name)};
  if (const std::string_view world = tables.property(mutant.fault->killer)->hunted_in;
      !world.empty()) {
    restrictions.world = world;
  }
  GoldenStore store(flags.seed);
  CampaignOptions options;
  options.seed = flags.seed;
  options.seconds = parse_duration("--time", flags.time);
  options.jobs = flags.workers.count();
  options.limits = flags.workers.limits();
  options.goldens = goldens;
  options.store = &store;
  const std::string_view killer = flags.any ? std::string_view() : mutant.fault->killer;
  options.is_enough = [&](const Judged& judged) {
    return falsifies(judged.result, killer, reordered);
  };
  KillerSink sink(result, killer);
  const Tally tally =
      run_campaign(reordered, make_domain(restrictions, reordered), options, {&sink});
  if (tally.interrupted) throw Error("interrupted");
  if (!result.killed) {
    result.cases = tally.cases();
    result.seconds = tally.seconds;
  }
  for (const Failure& failure : tally.failures) {
    const bool named = failure.property == mutant.fault->killer;
    if (result.has_failure && !named) continue;
    result.failure = failure;
    result.has_failure = true;
  }
  return result;
}

std::vector<const Subject*> chosen(const MutantFlags& flags, const Tables& tables) {
  std::vector<const Subject*> result;
  std::string names;
  const bool all_of_plugins = flags.only.empty() && !tables.plugged.empty();
  for (const Subject* subject : all_of_plugins ? tables.plugged : tables.subjects) {
    if (!subject->fault) continue;
    names += (names.empty() ? "" : ", ") + std::string(subject->name);
    const auto& only = flags.only;
    if (only.empty() || std::find(only.begin(), only.end(), subject->name) != only.end()) {
      result.push_back(subject);
    }
  }
  for (const std::string& name : flags.only) {
    const bool known = std::any_of(result.begin(), result.end(),
                                   [&](const Subject* mutant) { return mutant->name == name; });
    if (!known) throw Error(fmt::format("--only: '{}' is no mutant; choices: {}", name, names));
  }
  return result;
}

// Why the world in which this mutant shows cannot run, or an empty string.
std::string not_here(const Subject& mutant, const Tables& tables) {
  const std::string_view world = tables.property(mutant.fault->killer)->hunted_in;
  for (const WorldEntry& entry : tables.worlds) {
    if (entry.name != world) continue;
    const std::string why = why_not(entry, tables.devices);
    return why.empty() ? why : fmt::format("world {}: {}", world, why);
  }
  return {};
}

void print(const Hunt& hunt) {
  std::string others;
  for (const std::string& killer : hunt.killers) {
    if (killer != hunt.mutant->fault->killer) others += (others.empty() ? "" : ", ") + killer;
  }
  fmt::print("{:<9} {:<34} {:<5} {:<26} {:>7} cases {:>6.2f} s\n",
             hunt.killed ? "killed" : "SURVIVED", hunt.mutant->name, hunt.mutant->fault->kind,
             hunt.mutant->fault->killer, hunt.cases, hunt.seconds);
  if (!others.empty()) fmt::print("          also falsified by {}\n", others);
  if (hunt.has_failure) fmt::print("          {}\n", hunt.failure.shrunk);
  std::fflush(stdout);
}

nlohmann::ordered_json record(const Hunt& hunt) {
  return {{"record", "mutant"},
          {"mutant", hunt.mutant->name},
          {"kind", hunt.mutant->fault->kind},
          {"killer", hunt.mutant->fault->killer},
          {"says", hunt.mutant->fault->says},
          {"killed", hunt.killed},
          {"killed_by", hunt.killers},
          {"cases", hunt.cases},
          {"seconds", hunt.seconds},
          {"signature", hunt.failure.signature},
          {"found", hunt.failure.found},
          {"shrunk", hunt.failure.shrunk},
          {"diagnosis", hunt.failure.diagnosis},
          {"explanation", hunt.failure.explanation},
          {"evaluations", hunt.failure.evaluations},
          {"golden", hunt.failure.golden}};
}

int run(const MutantFlags& flags, const Tables& tables) {
  std::ofstream json;
  if (!flags.json.empty()) {
    json.open(flags.json);
    if (!json) throw Error(fmt::format("--json: cannot write {}", flags.json));
  }
  std::size_t killed = 0;
  std::size_t hunted = 0;
  const std::vector<const Subject*> mutants = chosen(flags, tables);
  for (const Subject* mutant : mutants) {
    if (const std::string why = not_here(*mutant, tables); !why.empty()) {
      fmt::print("{:<9} {:<34} {}\n", "not here", mutant->name, why);
      continue;
    }
    ++hunted;
    const Hunt result = hunt(*mutant, flags, flags.goldens_out, tables);
    killed += result.killed;
    print(result);
    json << record(result).dump() << '\n' << std::flush;
  }
  const std::size_t survived = hunted - killed;
  fmt::print("\n{} mutants: {} killed by {}, {} survived\n", hunted, killed,
             flags.any ? "a property" : "the property they name", survived);
  json << nlohmann::ordered_json{{"record", "summary"},
                                 {"mutants", hunted},
                                 {"killed", killed},
                                 {"survived", survived},
                                 {"seed", flags.seed}}
              .dump()
       << '\n';
  if (hunted == 0) return kExitUnusable;
  return survived == 0 ? kExitHolds : kExitFalsified;
}

}  // namespace

Command mutants_command(CLI::App& program, const Tables& tables) {
  CLI::App* app = program.add_subcommand(
      "mutants", "hunt every deliberately broken subject: is it killed by the property it names?");
  app->footer(kExamples);
  auto flags = std::make_shared<MutantFlags>();
  app->add_option("--only", flags->only, "only these mutants")
      ->delimiter(',')
      ->type_name("NAME,...");
  app->add_option("--time", flags->time, "longest hunt of one mutant")
      ->type_name("DURATION")
      ->capture_default_str();
  app->add_option("--seed", flags->seed, "a number, or any text such as a commit hash")
      ->type_name("SEED")
      ->capture_default_str();
  app->add_flag("--any", flags->any, "any property may kill, not only the one that is named");
  add_worker_flags(*app, flags->workers);
  app->add_option("--goldens-out", flags->goldens_out, "folder for their goldens (default: none)")
      ->type_name("DIR");
  app->add_option("--json", flags->json, "write JSON lines: a record a mutant and a summary")
      ->type_name("FILE");
  return {app, [flags, &tables] { return run(*flags, tables); }};
}

}  // namespace shardproof
