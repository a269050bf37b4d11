#include "harness/plugin/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "harness/model/require.h"

namespace shardproof {
namespace {

constexpr const char* kEntry = "shardproof_plugin_v1";
constexpr std::size_t kMostCopies = 256;  // ranks beyond share them

// The table of what the dynamic linker finds under `name`.
const shardproof_plugin* load(const std::string& name, const std::filesystem::path& shown) {
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error(fmt::format("--plugin: cannot load {}: {}", shown.string(), dlerror()));
  }
  using Entry = const shardproof_plugin* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kEntry));
  if (entry == nullptr) {
    throw Error(fmt::format("--plugin: {} does not export {}; shardproof_plugin.h says how",
                            shown.string(), kEntry));
  }
  const shardproof_plugin* table = entry();
  if (table == nullptr) {
    throw Error(fmt::format("--plugin: {} of {} returned NULL", kEntry, shown.string()));
  }
  return table;
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!(text << file.rdbuf())) throw Error(fmt::format("--plugin: cannot read {}", path.string()));
  return text.str();
}

}  // namespace

PluginLibrary::PluginLibrary(std::filesystem::path path) : path_(std::move(path)) {
  if (!std::filesystem::exists(path_)) {
    throw Error(fmt::format("--plugin: {} does not exist", path_.string()));
  }
  path_ = std::filesystem::canonical(path_);
  bytes_ = contents(path_);
  table_ = load(path_.string(), path_);
  if (table_->version != SHARDPROOF_PLUGIN_VERSION) {
    throw Error(fmt::format("--plugin: {} is of version {} of shardproof_plugin.h, not of {}",
                            path_.string(), table_->version, SHARDPROOF_PLUGIN_VERSION));
  }
  if (table_->subject_bytes != sizeof(shardproof_subject)) {
    throw Error(fmt::format("--plugin: {}: its subjects have {} bytes, not {}: another header",
                            path_.string(), table_->subject_bytes, sizeof(shardproof_subject)));
  }
  if (table_->subject_count == 0 || table_->subjects == nullptr) {
    throw Error(fmt::format("--plugin: {} has no subjects", path_.string()));
  }
}

const shardproof_subject& PluginLibrary::subject(std::size_t index, const Rank& rank) {
  if (rank.running().placement.world != "sim") return table_->subjects[index];
  const std::size_t copy = static_cast<std::size_t>(rank.index()) % kMostCopies;
  if (copies_.size() <= copy) copies_.resize(copy + 1);
  if (copies_[copy] == nullptr) copies_[copy] = load_copy();
  return copies_[copy]->subjects[index];
}

// The descriptor stays open: its number is the copy's name.
const shardproof_plugin* PluginLibrary::load_copy() {
  const int file = memfd_create("shardproof_plugin", MFD_CLOEXEC);
  const auto size = static_cast<ssize_t>(bytes_.size());
  if (file < 0 || write(file, bytes_.data(), bytes_.size()) != size) {
    throw Error(fmt::format("--plugin: no memory for a copy of {}: {}", path_.string(),
                            std::strerror(errno)));
  }
  const shardproof_plugin* table = load(fmt::format("/proc/self/fd/{}", file), path_);
  if (table->subject_count != table_->subject_count) {
    throw Error(fmt::format("--plugin: {} has other subjects each time", path_.string()));
  }
  return table;
}

}  // namespace shardproof
