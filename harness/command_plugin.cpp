#include "harness/command_plugin.h"

#include <algorithm>
#include <string>

#include "harness/model/require.h"
#include "harness/worlds/plugin_paths.h"

namespace shardproof {
namespace {

void load(const std::string& path, Tables& tables, Plugins& plugins) {
  const auto is_loaded = [&](const Plugin& each) {
    std::error_code none;
    return std::filesystem::equivalent(each.path(), path, none);
  };
  if (std::any_of(plugins.begin(), plugins.end(), is_loaded)) return;
  KnownNames known{tables.operators, tables.masks, {}, {}};
  for (const Subject* subject : tables.subjects) known.subjects.push_back(subject->name);
  for (const Property* property : tables.properties) known.properties.push_back(property->name);
  const Plugin& plugin = plugins.emplace_back(path, known);
  for (const Subject* subject : plugin.subjects()) {
    tables.subjects.push_back(subject);
    tables.plugged.push_back(subject);
  }
  add_plugin_path(plugin.path());
}

}  // namespace

void add_plugin_flag(CLI::App& app, Tables& tables, Plugins& plugins) {
  app.add_option_function<std::vector<std::string>>(
         "--plugin",
         [&](const std::vector<std::string>& paths) {
           for (const std::string& path : paths) load(path, tables, plugins);
         },
         "shared libraries with subjects of your own (shardproof_plugin.h)")
      ->delimiter(',')
      ->type_name("LIBRARY,...");
}

}  // namespace shardproof
