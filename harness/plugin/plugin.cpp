#include "harness/plugin/plugin.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>

#include "harness/model/field.h"
#include "harness/model/operator.h"
#include "harness/model/require.h"
#include "harness/plugin/entry.h"
#include "harness/plugin/problem.h"

namespace shardproof {
namespace {

constexpr unsigned kLoadSeconds = 60;

[[noreturn]] void tell(int descriptor, std::string_view words) {
  const ssize_t written = write(descriptor, words.data(), words.size());
  _exit(written < 0 ? 1 : 0);
}

std::string read_all(int descriptor) {
  std::string words;
  std::array<char, 4096> chunk;
  for (ssize_t count = 0; (count = read(descriptor, chunk.data(), chunk.size())) != 0;) {
    if (count > 0) words.append(chunk.data(), static_cast<std::size_t>(count));
    if (count < 0 && errno != EINTR) break;
  }
  return words;
}

// Throws Error with what `attempt` throws in a process of its own, or when that dies.
void try_in_child(const std::filesystem::path& path, const std::function<void()>& attempt) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw Error("--plugin: no pipe to be had");
  const pid_t child = fork();
  if (child < 0) throw Error("--plugin: no process to be had");
  if (child == 0) {
    close(ends[0]);
    std::signal(SIGALRM, SIG_DFL);
    alarm(kLoadSeconds);
    try {
      attempt();
    } catch (const std::exception& error) {
      tell(ends[1], error.what());
    }
    tell(ends[1], "fine");
  }
  close(ends[1]);
  const std::string words = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (words == "fine") return;
  if (!words.empty()) throw Error(words);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
    throw Error(fmt::format("--plugin: {} was not loaded in {} s", path.string(), kLoadSeconds));
  }
  throw Error(fmt::format("--plugin: {} {} while it was loaded", path.string(),
                          WIFSIGNALED(status)
                              ? fmt::format("crashed ({})", strsignal(WTERMSIG(status)))
                              : fmt::format("exited with {}", WEXITSTATUS(status))));
}

std::string refusal_text(const PluginLibrary& library, std::size_t index, std::string_view why) {
  const char* name = library.table().subjects[index].name;
  return fmt::format("--plugin: {}: subject {} ({}): {}", library.path().string(), index,
                     name == nullptr ? "?" : name, why);
}

std::string broken_contract(const shardproof_subject& described, const Case& value) {
  Contract defaults;
  defaults.precision = default_precision(value.problem);
  Contract contract;
  try {
    contract = promised(described, value, defaults);
  } catch (const Error& error) {
    return error.what();
  }
  const bool has_backward = described.sharded_forward != nullptr ||
                            described.attention_backward != nullptr ||
                            described.mlp_backward != nullptr;
  const std::string tighter = tighter_promise(contract.precision, defaults.precision);
  if (has_backward || tighter.empty()) return {};
  return "without a backward pass its contract must not promise more than the default: " + tighter;
}

}  // namespace

Plugin::Plugin(const std::filesystem::path& path, const KnownNames& known, bool is_known) {
  if (!is_known) {
    try_in_child(path, [&] {
      library_ = std::make_shared<PluginLibrary>(path);
      check_entries(known);
      check_contracts(known);
    });
  }
  library_ = std::make_shared<PluginLibrary>(path);
  for (std::size_t i = 0; i < library_->table().subject_count; ++i) add_subjects(i);
}

std::vector<const Subject*> Plugin::subjects() const {
  std::vector<const Subject*> result;
  for (const Subject& each : subjects_) result.push_back(&each);
  return result;
}

void Plugin::check_entries(const KnownNames& known) const {
  std::vector<std::string_view> taken = known.subjects;
  for (std::size_t i = 0; i < library_->table().subject_count; ++i) {
    const shardproof_subject& described = library_->table().subjects[i];
    std::string why = broken_rule(described);
    const auto is_in = [](std::string_view name, const std::vector<std::string_view>& names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (why.empty() && is_in(described.name, taken)) why = "a subject has this name already";
    if (why.empty() && described.fault != nullptr) {
      const char* killer = described.fault->killer;
      const std::string_view name = killer == nullptr ? "" : killer;
      if (!known.properties.empty() && !is_in(name, known.properties)) {
        why = fmt::format("its killer '{}' is no property; see `shardproof list properties`", name);
      }
    }
    if (!why.empty()) throw Error(refusal_text(*library_, i, why));
    taken.push_back(described.name);
  }
}

// What it says of a small problem of every dtype.
void Plugin::check_contracts(const KnownNames& known) const {
  for (std::size_t i = 0; i < library_->table().subject_count; ++i) {
    const shardproof_subject& described = library_->table().subjects[i];
    Case value;
    for (const Operator* each : known.operators) {
      if (each->name == described.op) value.problem.op = each;
    }
    value.problem.mask.mask = known.masks.front();
    for (DType type : all_dtypes()) {
      value.problem.dtype = type;
      repair(value.problem);
      remove_features(described, value);
      missing_feature(described, value);  // shrinking asks for it outside of workers
      const std::string why = broken_contract(described, value);
      if (!why.empty()) throw Error(refusal_text(*library_, i, why));
    }
  }
}

void Plugin::add_subjects(std::size_t index) {
  const PluginEntry entry{library_, index};
  const shardproof_subject& described = entry.described();
  const std::vector<KernelPlace>* places = places_of(described);
  if (places == nullptr) {
    std::vector<std::string_view> axes;
    for (const char* const* axis = described.axes; axis != nullptr && *axis != nullptr; ++axis) {
      axes.push_back(*axis);
    }
    make_sharded_subject(entry, axes, add_subject(described, "", ""));
    return;
  }
  for (const KernelPlace& place : *places) {
    if (described.places != 0 && (described.places & place.place) == 0) continue;
    Subject& subject = add_subject(described, place.suffix, place.summary);
    if (described.mlp_forward != nullptr) {
      make_mlp_subject(entry, place, subject);
    } else {
      make_attention_subject(entry, place, subject);
    }
  }
}

Subject& Plugin::add_subject(const shardproof_subject& described, std::string_view suffix,
                             std::string_view placed) {
  const auto kept = [&](std::string text) -> std::string_view {
    return words_.emplace_back(std::move(text));
  };
  Subject& subject = subjects_.emplace_back();
  subject.name = kept(std::string(described.name).append(suffix));
  subject.op = kept(described.op);
  std::string summary = described.summary == nullptr ? "a plugin's" : described.summary;
  if (!placed.empty()) summary.append(", ").append(placed);
  subject.summary = kept(std::move(summary));
  if (described.fault != nullptr) {
    const char* says = described.fault->says;
    faults_.push_back({"plugin", kept(described.fault->killer), kept(says == nullptr ? "" : says)});
    subject.fault = &faults_.back();
  }
  return subject;
}

}  // namespace shardproof
