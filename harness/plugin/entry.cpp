#include "harness/plugin/entry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "harness/plugin/problem.h"

namespace shardproof {
namespace {

constexpr std::array<std::string_view, 3> kOperators{"attention", "mlp", "collective"};

std::string listed(const std::vector<std::string_view>& names) {
  std::string result;
  for (std::string_view name : names) result += (result.empty() ? "" : ", ") + std::string(name);
  return result.empty() ? "none" : result;
}

std::string broken_name(const char* name) {
  if (name == nullptr || *name == '\0') return "has no name";
  const std::string_view text(name);
  const bool is_word = std::all_of(
      text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  return is_word ? "" : fmt::format("the name '{}' is not of letters, digits and _", text);
}

std::string broken_functions(const shardproof_subject& described) {
  const bool attention = described.attention_forward != nullptr;
  const bool mlp = described.mlp_forward != nullptr;
  const bool sharded = described.sharded_forward != nullptr;
  const std::string_view op = described.op;
  if (attention + mlp + sharded != 1) {
    return fmt::format(
        "has {} of attention_forward, mlp_forward and sharded_forward; it needs exactly one",
        attention + mlp + sharded);
  }
  if (attention && op != "attention") {
    return fmt::format("attention_forward is none of operator '{}'; choices: attention", op);
  }
  if (mlp && op != "mlp") {
    return fmt::format("mlp_forward is none of operator '{}'; choices: mlp", op);
  }
  if (sharded && described.sharded_backward == nullptr) return "has no sharded_backward";
  return {};
}

std::string broken_bits(const shardproof_subject& described) {
  constexpr std::uint32_t kDTypes = (1u << (SHARDPROOF_F16 + 1)) - 1;
  if ((described.dtypes & ~kDTypes) != 0) {
    return fmt::format("dtypes is {:#x}; choices: SHARDPROOF_DTYPE of {}", described.dtypes,
                       choices_of_dtypes());
  }
  constexpr std::uint32_t kFeatures =
      SHARDPROOF_SOFTCAP | SHARDPROOF_BIAS | SHARDPROOF_GATED | SHARDPROOF_SINK;
  if ((described.features & ~kFeatures) != 0) {
    return fmt::format(
        "features is {:#x}; choices: SHARDPROOF_SOFTCAP, _BIAS, _GATED, _SINK together",
        described.features);
  }
  constexpr std::uint32_t kLimits =
      SHARDPROOF_SAME_DIMS | SHARDPROOF_SAME_HEADS | SHARDPROOF_SAME_LENGTHS | SHARDPROOF_DIMS_OF_8;
  const bool is_attention = std::string_view(described.op) == "attention";
  if ((described.limits & ~(is_attention ? kLimits : 0)) != 0) {
    return fmt::format("limits is {:#x}; choices: {}", described.limits,
                       is_attention ? "SHARDPROOF_SAME_DIMS, _SAME_HEADS, _SAME_LENGTHS, "
                                      "_DIMS_OF_8 together"
                                    : "0, since it is no attention");
  }
  const std::vector<KernelPlace>* places = places_of(described);
  if (places != nullptr && (described.features & SHARDPROOF_SINK) != 0) {
    return "SHARDPROOF_SINK is a feature of sharded implementations";
  }
  std::uint32_t possible = 0;
  for (const KernelPlace& each : places == nullptr ? std::vector<KernelPlace>{} : *places) {
    possible |= each.place;
  }
  if ((described.places & ~possible) == 0) return {};
  return fmt::format("places is {:#x}; choices: {}", described.places,
                     places == nullptr            ? "0, since it is no kernel"
                     : possible & SHARDPROOF_RING ? "SHARDPROOF_ALONE, _RING, _HEADS together"
                                                  : "SHARDPROOF_ALONE, _COLUMN_ROW together");
}

std::string broken_axes(const shardproof_subject& described) {
  if (described.axes == nullptr) return {};
  if (places_of(described) != nullptr) return "axes are for sharded implementations only";
  const std::vector<std::string_view> possible = axes_of_operator(described.op);
  for (const char* const* axis = described.axes; *axis != nullptr; ++axis) {
    if (std::find(possible.begin(), possible.end(), *axis) != possible.end()) continue;
    return fmt::format("cannot be cut along '{}'; choices: {}", *axis, listed(possible));
  }
  return {};
}

}  // namespace

std::string choices_of_operators() { return listed({kOperators.begin(), kOperators.end()}); }

std::vector<std::string_view> axes_of_operator(std::string_view op) {
  if (op == "attention") return {"cp", "tp"};
  return {"tp"};
}

const std::vector<KernelPlace>* places_of(const shardproof_subject& described) {
  if (described.attention_forward != nullptr) return &attention_places();
  if (described.mlp_forward != nullptr) return &mlp_places();
  return nullptr;
}

std::string broken_rule(const shardproof_subject& described) {
  if (std::string why = broken_name(described.name); !why.empty()) return why;
  const std::string_view op = described.op == nullptr ? "" : described.op;
  if (std::find(kOperators.begin(), kOperators.end(), op) == kOperators.end()) {
    return fmt::format("operator '{}' is none that a plugin can compute; choices: {}", op,
                       choices_of_operators());
  }
  for (auto* rule : {broken_functions, broken_bits, broken_axes}) {
    if (std::string why = rule(described); !why.empty()) return why;
  }
  return {};
}

}  // namespace shardproof
