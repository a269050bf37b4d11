#include "golden/golden_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "harness/model/require.h"

namespace shardproof::golden_format {
namespace {

constexpr std::array<std::string_view, 11> kOperations{
    "send",       "receive",        "exchange",   "all_reduce", "all_reduce_maximum",
    "all_gather", "reduce_scatter", "all_to_all", "broadcast",  "barrier",
    "other"};

std::string broken_values(std::string_view what, const std::vector<Index>& extents, DType dtype,
                          const std::vector<double>& values) {
  if (checked_elements(extents) != static_cast<Index>(values.size())) {
    return fmt::format("{} has {} values, which is not what its shape says", what, values.size());
  }
  const DType stored = stored_as(dtype);
  for (double value : values) {
    if (!(round_to(stored, value) == value || std::isnan(value))) {
      return fmt::format("{} holds {}, which is no {} number", what, value, format(stored).name);
    }
  }
  return "";
}

// The names of a group are kept as one attribute.
std::string broken_names(std::string_view group, const std::set<std::string>& names) {
  std::size_t bytes = 0;
  for (const std::string& name : names) bytes += name.size() + 1;
  return bytes > kMaximumAttributeBytes ? fmt::format("{} has too many names", group) : "";
}

std::string broken_tensors(std::string_view group, const std::vector<GoldenTensor>& tensors) {
  if (tensors.size() > kMaximumObjects) return fmt::format("too many tensors in {}", group);
  std::set<std::string> names;
  for (const GoldenTensor& tensor : tensors) {
    if (!is_name(tensor.name)) return fmt::format("{} has a tensor with no usable name", group);
    const std::string what = fmt::format("{}/{}", group, tensor.name);
    if (!names.insert(tensor.name).second) return what + " is there twice";
    std::vector<Index> extents;
    for (int d = 0; d < tensor.shape.rank(); ++d) extents.push_back(tensor.shape[d]);
    if (auto broken = broken_values(what, extents, tensor.dtype, tensor.values); !broken.empty()) {
      return broken;
    }
  }
  return broken_names(group, names);
}

std::string broken_shards(const Golden& golden) {
  if (golden.shards.size() > kMaximumObjects) return "too many shards";
  std::set<std::string> names;
  for (const KeptShard& shard : golden.shards) {
    const std::string what = shard_name(shard);
    if (!is_name(what) || shard.rank < 0) return "a shard has no usable name";
    if (!names.insert(what).second) return what + " is there twice";
    if (shard.shard.size() > Shape::kMaximumRank) return what + " has too many dimensions";
    std::vector<Index> extents;
    for (const auto& indices : shard.shard) extents.push_back(static_cast<Index>(indices.size()));
    const DType dtype = shard_dtype(golden, shard);
    if (auto broken = broken_values(what, extents, dtype, shard.values); !broken.empty()) {
      return broken;
    }
  }
  return broken_names(kShards, names);
}

std::string broken_trace(const Trace& trace) {
  for (const Event& event : trace) {
    if (event.axis.size() > kMaximumNameBytes || event.operation.size() > kMaximumNameBytes) {
      return "a trace event has too long a name";
    }
    if (event.bytes < 0 || event.bytes > kMaximumEventBytes) {
      return fmt::format("a trace event of {} bytes is impossible", event.bytes);
    }
  }
  return "";
}

std::string broken_texts(const Golden& golden) {
  const auto broken = [](const std::string& text, std::size_t limit) -> std::string {
    if (text.size() > limit) return fmt::format("a text of {} bytes is too long", text.size());
    return text.find('\0') == std::string::npos ? "" : "a text contains a NUL";
  };
  const Verdict& verdict = golden.verdict;
  for (const auto* text :
       {&golden.case_text, &golden.property, &verdict.tensor, &verdict.symptom}) {
    if (std::string rule = broken(*text, kMaximumAttributeBytes); !rule.empty()) return rule;
  }
  for (const auto* text : {&verdict.message, &golden.contract}) {
    if (std::string rule = broken(*text, kMaximumTextBytes); !rule.empty()) return rule;
  }
  if (golden.environment.size() > kMaximumObjects) return "the environment has too many entries";
  for (const auto& [key, value] : golden.environment) {
    if (!is_name(key)) return "an environment entry has no usable name";
    if (std::string rule = broken(value, kMaximumAttributeBytes); !rule.empty()) return rule;
  }
  return "";
}

}  // namespace

Index checked_elements(const std::vector<Index>& extents) {
  Index at_least_one = 1;
  for (Index extent : extents) {
    if (extent < 0 || extent > kMaximumElements / at_least_one) return -1;
    at_least_one *= std::max<Index>(extent, 1);
  }
  return std::ranges::find(extents, 0) == extents.end() ? at_least_one : 0;
}

const std::vector<GoldenTensor>& tensors_of(const Golden& golden, std::size_t group) {
  const std::array<const std::vector<GoldenTensor>*, kTensorGroups.size()> all{
      &golden.inputs, &golden.got, &golden.want, &golden.bound};
  return *all.at(group);
}

std::vector<GoldenTensor>& tensors_of(Golden& golden, std::size_t group) {
  return const_cast<std::vector<GoldenTensor>&>(tensors_of(std::as_const(golden), group));
}

DType stored_as(DType dtype) { return dtype == DType::kTf32 ? DType::kF32 : dtype; }

bool is_name(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  };
  // "." would name the group itself.
  return !text.empty() && text != "." && text.size() <= kMaximumNameBytes &&
         std::ranges::all_of(text, allowed);
}

std::string joined(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ","));
}

std::string_view phase_name(Phase phase) {
  return phase == Phase::kForward ? "forward" : "backward";
}

std::string shard_name(const KeptShard& shard) {
  return fmt::format("{}.rank_{}", shard.tensor, shard.rank);
}

DType shard_dtype(const Golden& golden, const KeptShard& shard) {
  for (const GoldenTensor& tensor : golden.got) {
    if (tensor.name == shard.tensor) return tensor.dtype;
  }
  return DType::kF64;
}

std::string_view known_operation(std::string_view text) {
  const auto found = std::ranges::find(kOperations, text);
  return found == kOperations.end() ? kOperations.back() : *found;
}

Index total_elements(const Golden& golden) {
  std::size_t total = 8 * golden.trace.size();
  for (std::size_t group = 0; group < kTensorGroups.size(); ++group) {
    for (const GoldenTensor& tensor : tensors_of(golden, group)) total += tensor.values.size();
  }
  for (const KeptShard& shard : golden.shards) {
    total += shard.values.size();
    for (const auto& indices : shard.shard) total += indices.size();
  }
  return static_cast<Index>(total);
}

std::string broken_rule(const Golden& golden) {
  if (golden.version != Golden::kVersion) {
    return fmt::format("format version {} is not {}", golden.version, Golden::kVersion);
  }
  if (std::string broken = broken_texts(golden); !broken.empty()) return broken;
  for (std::size_t group = 0; group < kTensorGroups.size(); ++group) {
    std::string broken = broken_tensors(kTensorGroups[group], tensors_of(golden, group));
    if (!broken.empty()) return broken;
  }
  if (std::string broken = broken_shards(golden); !broken.empty()) return broken;
  if (std::string broken = broken_trace(golden.trace); !broken.empty()) return broken;
  if (total_elements(golden) > kMaximumElements) return "there are too many elements";
  return "";
}

}  // namespace shardproof::golden_format
