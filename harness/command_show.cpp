#include <fmt/format.h>

#include <memory>

#include "golden/golden.h"
#include "harness/command.h"

namespace shardproof {

Command show_command(CLI::App& program, const Tables& tables) {
  CLI::App* app = program.add_subcommand(
      "show", "print what a golden holds: which element, where it lies, and a map of the errors");
  app->footer(
      "Example:\n  shardproof show golden/found/ring_attention-matches_reference-1f3a5b7c.h5");
  auto path = std::make_shared<std::string>();
  app->add_option("file", *path, "a golden")->required()->type_name("FILE");
  return {app, [path, &tables] {
            fmt::print("{}\n", show(read_golden(*path), tables.vocabulary()));
            return kExitHolds;
          }};
}

}  // namespace shardproof
