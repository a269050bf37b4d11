// The program of one rank of the MPI world. It is started by the world, never by people.
#include <fmt/format.h>

#include <deque>
#include <exception>

#include "harness/devices/devices.h"
#include "harness/masks/masks.h"
#include "harness/plugin/plugin.h"
#include "harness/worlds/mpi/program.h"
#include "harness/worlds/worlds.h"
#include "parallel_impls/subjects.h"
#include "reference/operators.h"

namespace shardproof {
namespace {

// `plugins` own the subjects that they add.
RankTables rank_tables(const std::deque<Plugin>& plugins) {
  RankTables tables{{}, all_subjects(), all_devices()};
  tables.vocabulary.operators = all_operators();
  tables.vocabulary.masks = all_masks();
  for (const Plugin& plugin : plugins) {
    for (const Subject* subject : plugin.subjects()) tables.subjects.push_back(subject);
  }
  for (const Subject* subject : tables.subjects) {
    tables.vocabulary.subjects.push_back(subject->name);
  }
  for (const WorldEntry& entry : all_worlds()) tables.vocabulary.worlds.push_back(entry.name);
  for (const DeviceEntry& entry : tables.devices) {
    tables.vocabulary.devices.push_back(entry.name);
  }
  return tables;
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  try {
    if (argc < 3) {
      fmt::print(stderr, "shardproof_rank is started by shardproof --world=mpi\n");
      return 2;
    }
    std::deque<shardproof::Plugin> plugins;  // their paths come first
    for (int i = 1; i < argc - 2; ++i) {
      plugins.emplace_back(argv[i], shardproof::KnownNames{}, true);
    }
    shardproof::run_rank_program(shardproof::rank_tables(plugins), argv[argc - 2], argv[argc - 1]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "shardproof_rank: {}\n", error.what());
    return 2;
  }
}
