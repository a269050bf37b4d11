#include "harness/bench/plugins.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>

#include "harness/bench/timed.h"
#include "harness/plugin/plugin.h"
#include "harness/worlds/worlds.h"

namespace shardproof {
namespace {

// Microseconds of a run, of the fastest hundred: others may use the processor, too.
double time_of(const Case& value, const Subject& subject, World& world, double seconds) {
  constexpr int kBatch = 100;
  double fastest = std::numeric_limits<double>::infinity();
  for (const double start = now(); now() - start < seconds;) {
    const double begin = now();
    for (int i = 0; i < kBatch; ++i) world.run(value, subject, {});
    fastest = std::min(fastest, now() - begin);
  }
  return 1e6 * fastest / kBatch;
}

// The plugin of tests that lies beside this program.
std::filesystem::path test_plugin() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libcheats_plugin.so";
}

}  // namespace

void print_plugins(double seconds, const Tables& tables) {
  fmt::print("\nA run of attention of 4 queries to 4 keys, forward and backward, world sim\n");
  if (!std::filesystem::exists(test_plugin())) {
    fmt::print("not here: {} is built with the tests\n", test_plugin().string());
    return;
  }
  const Plugin plugin(test_plugin(), {}, true);
  const Case value = parse_case(
      "attention batch=1 q=4 kv=4 heads=1 dim=4 mask=causal dtype=f32 data=normal seed=1 | "
      "single_attention world=sim device=cpu mesh=1",
      tables.vocabulary());
  const auto world = all_worlds().front().make(tables.devices);
  const Subject& own = *tables.subject("single_attention");
  Subject nothing = own;
  nothing.forward = [](Rank&) {};
  nothing.backward = [](Rank&) {};
  const double base = time_of(value, nothing, *world, seconds);
  fmt::print("{:<44} {:>9} {:>14}\n", "", "us a run", "us a call more");
  const auto print = [&](std::string_view what, const Subject& subject) {
    const double each = time_of(value, subject, *world, seconds);
    fmt::print("{:<44} {:>9.2f} {:>14.2f}\n", what, each, (each - base) / 2);
  };
  fmt::print("{:<44} {:>9.2f}\n", "a subject that does nothing", base);
  print("single_attention", own);
  for (const Subject* subject : plugin.subjects()) {
    if (subject->name == "ghost") print("a plugin's kernel that does nothing", *subject);
    if (subject->name == "honest") print("a plugin's kernel of loops, own backward", *subject);
  }
  std::fflush(stdout);
}

}  // namespace shardproof
