#include "harness/worlds/plugin_paths.h"

#include <cstdlib>
#include <sstream>

namespace shardproof {
namespace {

constexpr const char* kVariable = "SHARDPROOF_PLUGINS";  // one a line

}  // namespace

void add_plugin_path(const std::filesystem::path& path) {
  const char* before = std::getenv(kVariable);
  const std::string all = (before == nullptr ? "" : before) + path.string() + '\n';
  setenv(kVariable, all.c_str(), 1);
}

std::vector<std::string> plugin_paths() {
  const char* all = std::getenv(kVariable);
  std::istringstream lines(all == nullptr ? "" : all);
  std::vector<std::string> paths;
  for (std::string line; std::getline(lines, line);) paths.push_back(line);
  return paths;
}

}  // namespace shardproof
