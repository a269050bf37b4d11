// PluginLibrary: a loaded plugin. Each simulated rank gets a copy of the library to itself, so that
// no static variable tells one rank what another has: a copy is another file to the dynamic linker.
// Never unloaded: what it gave out may be used until the process ends.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/plugin/shardproof_plugin.h"
#include "harness/run/rank.h"

namespace shardproof {

class PluginLibrary {
 public:
  // Throws Error that says which rule the library breaks.
  explicit PluginLibrary(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  const shardproof_plugin& table() const { return *table_; }

  // An entry of its table, for calls on that rank.
  const shardproof_subject& subject(std::size_t index, const Rank& rank);

 private:
  const shardproof_plugin* load_copy();

  std::filesystem::path path_;
  const shardproof_plugin* table_ = nullptr;
  std::string bytes_;                             // of the file, as it was
  std::vector<const shardproof_plugin*> copies_;  // by simulated rank; null: not yet
};

}  // namespace shardproof
