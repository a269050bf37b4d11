// The command line. The only file that sees every table.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <vector>

#include "harness/command.h"
#include "harness/command_plugin.h"
#include "harness/devices/devices.h"
#include "harness/masks/masks.h"
#include "harness/worlds/worlds.h"
#include "parallel_impls/subjects.h"
#include "properties/properties.h"
#include "reference/operators.h"

namespace shardproof {
namespace {

std::string options_of(const CLI::App& app) {
  std::string result;
  for (const CLI::Option* option : app.get_options()) {
    result += (result.empty() ? "" : ", ") + option->get_name(false, true);
  }
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    result += (result.empty() ? "" : ", ") + command->get_name();
  }
  return result;
}

// Help goes out with success; anything else is an Error that lists what would be allowed.
int explain(const CLI::App& program, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return program.exit(error);
  const CLI::App* app = &program;
  for (const CLI::App* command : program.get_subcommands()) app = command;
  fmt::print(stderr, "shardproof: {}\nchoices: {}\nrun with --help for more\n", error.what(),
             options_of(*app));
  return kExitUnusable;
}

int run(int argc, char** argv) {
  Tables tables{all_operators(),  all_masks(),  all_subjects(),
                all_properties(), all_worlds(), all_devices()};
  Plugins plugins;
  CLI::App program(
      "Proves or refutes that sharded attention and MLP compute what unsharded ones do.",
      "shardproof");
  program.set_version_flag("--version", SHARDPROOF_VERSION);
  program.require_subcommand(1);
  program.footer("Exit codes: 0 holds, 1 falsified, 2 usage, environment or nothing checked.");
  const std::vector<Command> commands{
      fuzz_command(program, tables),    check_command(program, tables),
      replay_command(program, tables),  show_command(program, tables),
      merge_command(program, tables),   list_command(program, tables),
      mutants_command(program, tables), doctor_command(program, tables)};
  for (const Command& command : commands) add_plugin_flag(*command.app, tables, plugins);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return explain(program, error);
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  return kExitUnusable;
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  try {
    return shardproof::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "shardproof: {}\n", error.what());
    return shardproof::kExitUnusable;
  }
}
