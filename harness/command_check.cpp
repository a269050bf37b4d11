#include <fmt/format.h>

#include <memory>

#include "harness/command.h"
#include "harness/command_flags.h"
#include "harness/command_run.h"

namespace shardproof {
namespace {

constexpr const char* kExamples =
    "Example:\n"
    "  shardproof check 'attention batch=2 heads=4/2 q=33 kv=33 dim=16 mask=causal dtype=bf16 "
    "data=peaked seed=1f3a | ring_attention world=sim device=cpu mesh=cp:4 layout=zigzag "
    "schedule=77'\n";

struct CheckFlags {
  std::string text;
  std::vector<std::string> properties;
  WorkerFlags workers;
};

void print_numbers(const CaseResult& result) {
  if (result.tensors.empty()) return;
  fmt::print("\n  {:<10} {:>12} {:>10} {:>10} {:>10}\n", "tensor", "max error", "error/T1",
             "error/T2", "rms/model");
  for (const TensorNumbers& each : result.tensors) {
    fmt::print("  {:<10} {:>12.4g} {:>10.4g} {:>10.4g} {:>10.4g}\n", each.tensor, each.error,
               each.worst, each.likely, each.rms);
  }
}

void print_verdicts(const CaseResult& result, const Tables& tables) {
  fmt::print("\n");
  if (!result.refusal.empty()) fmt::print("  refused: {}\n", result.refusal);
  for (const PropertyResult& each : result.properties) {
    fmt::print("  {:<26} {}\n", property_name(each.property, tables), name(each.verdict.kind));
    if (each.verdict.message.empty()) continue;
    std::string message = "    ";
    for (char letter : each.verdict.message) {
      message += letter;
      if (letter == '\n') message += "    ";
    }
    fmt::print("{}\n", message);
  }
}

int run(const CheckFlags& flags, const Tables& tables) {
  Restrictions restrictions;
  restrictions.properties = flags.properties;
  const Case value = parse_case(flags.text, tables.vocabulary());
  IsolatedRuns runs(tables, make_domain(restrictions, tables).properties, flags.workers.limits());
  const CaseResult result = runs.run({.text = to_text(value), .all_numbers = true});
  fmt::print("{}\n", to_text(value));
  print_numbers(result);
  print_verdicts(result, tables);
  if (!result.ladder.empty()) fmt::print("\n  ladder: {}\n", result.ladder);
  if (!result.diagnosis.empty()) fmt::print("\n  diagnosis\n");
  for (const std::string& sentence : result.diagnosis) fmt::print("    {}\n", sentence);
  fmt::print("\n{}\n", name(result.overall));
  return exit_code(result);
}

}  // namespace

Command check_command(CLI::App& program, const Tables& tables) {
  CLI::App* app = program.add_subcommand("check", "judge one case and print the numbers");
  app->footer(kExamples);
  auto flags = std::make_shared<CheckFlags>();
  app->add_option("case", flags->text, "the case's text, quoted")->required()->type_name("CASE");
  app->add_option("--property", flags->properties, "judge only these properties")
      ->delimiter(',')
      ->type_name("NAME,...");
  add_worker_flags(*app, flags->workers);
  return {app, [flags, &tables] { return run(*flags, tables); }};
}

}  // namespace shardproof
