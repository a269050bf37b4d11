// The shared libraries whose subjects ranks that are processes must know, too. They are kept in the
// environment, which worker processes and the launcher inherit.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace shardproof {

void add_plugin_path(const std::filesystem::path& path);

// In the order in which they were added.
std::vector<std::string> plugin_paths();

}  // namespace shardproof
