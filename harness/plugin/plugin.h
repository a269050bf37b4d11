// Plugin: the subjects of one shared library that shardproof did not build (shardproof_plugin.h).
// It is loaded in a process of its own first, so that one that crashes is an Error, too.
#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/plugin/kernels.h"

namespace shardproof {

// What a plugin is checked against.
struct KnownNames {
  std::vector<const Operator*> operators;
  std::vector<const Mask*> masks;
  std::vector<std::string_view> subjects;    // that are taken
  std::vector<std::string_view> properties;  // that may be named as killers; empty: any
};

class Plugin {
 public:
  // Throws Error that names the value, the rule and the choices. `is_known`: it has been loaded
  // before by whoever started this process.
  Plugin(const std::filesystem::path& path, const KnownNames& known, bool is_known = false);

  const std::filesystem::path& path() const { return library_->path(); }
  std::vector<const Subject*> subjects() const;

 private:
  void check_entries(const KnownNames& known) const;
  void check_contracts(const KnownNames& known) const;
  void add_subjects(std::size_t index);
  Subject& add_subject(const shardproof_subject& described, std::string_view suffix,
                       std::string_view placed);

  std::shared_ptr<PluginLibrary> library_;
  std::deque<std::string> words_;  // that subjects borrow
  std::deque<Fault> faults_;
  std::deque<Subject> subjects_;
};

}  // namespace shardproof
