// The subjects that one local kernel of a plugin becomes: by itself, and inside the orchestrations
// that shardproof has.
#pragma once

#include <memory>

#include "harness/plugin/library.h"
#include "harness/run/subject.h"

namespace shardproof {

// One entry of a plugin's table: what its subjects hold on to.
struct PluginEntry {
  std::shared_ptr<PluginLibrary> library;
  std::size_t index = 0;

  const shardproof_subject& described() const { return library->table().subjects[index]; }
  const shardproof_subject& on(const Rank& rank) const { return library->subject(index, rank); }
};

// Where a kernel is placed: SHARDPROOF_RING is "ring", "key/value blocks travel along cp".
struct KernelPlace {
  std::uint32_t place = SHARDPROOF_ALONE;
  std::string_view suffix;  // of the subject's name; "" for by itself
  std::string_view summary;
  std::vector<std::string_view> axes;
};

// The places of the operator's kernels.
const std::vector<KernelPlace>& attention_places();
const std::vector<KernelPlace>& mlp_places();

// Fills in everything but name, op and summary.
void make_attention_subject(const PluginEntry& entry, const KernelPlace& place, Subject& subject);
void make_mlp_subject(const PluginEntry& entry, const KernelPlace& place, Subject& subject);
void make_sharded_subject(const PluginEntry& entry, std::vector<std::string_view> axes,
                          Subject& subject);

// Throws std::runtime_error when a function of a plugin returned a text.
void expect_success(const char* words, std::string_view function);

}  // namespace shardproof
