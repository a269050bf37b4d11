#include "harness/model/edit.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/model/swamped.h"

namespace shardproof {
namespace {

constexpr std::array<std::string_view, 9> kEdits{"none",      "from",           "hidden_nan",
                                                 "nan_token", "upstream_twice", "values_twice",
                                                 "uniform",   "nudge",          "swamped"};

bool is_read(const TensorSpec& spec, Role role) {
  return spec.kind == TensorKind::kInput && spec.role == role;
}

bool has_role(std::span<const TensorSpec> tensors, Role role) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const TensorSpec& spec) { return is_read(spec, role); });
}

// How many tokens the inputs of either role have; -1: there are none.
Index tokens_of(std::span<const TensorSpec> tensors, Role role, Role other) {
  for (const TensorSpec& spec : tensors) {
    const bool counts = is_read(spec, role) || is_read(spec, other);
    if (counts && spec.token_dimension >= 0) return spec.shape[spec.token_dimension];
  }
  return -1;
}

// One more than the last position of the edit; 0 or less: it has no position in this problem.
Index positions_of(Edit edit, std::span<const TensorSpec> tensors) {
  switch (edit) {
    case Edit::kFrom:
      return tokens_of(tensors, Role::kKey, Role::kActivation) + 1;
    case Edit::kNanToken:
      return tokens_of(tensors, Role::kQuery, Role::kActivation);
    case Edit::kNudge:
      return static_cast<Index>(kNudges.size());
    default:
      return 0;
  }
}

std::string choices(std::span<const TensorSpec> tensors) {
  std::string result;
  for (std::size_t i = 0; i < kEdits.size(); ++i) {
    const auto edit = static_cast<Edit>(i);
    if (!has_edit(edit, tensors)) continue;
    result += fmt::format("{}{}{}", result.empty() ? "" : ", ", kEdits[i],
                          has_position(edit) ? ":position" : "");
  }
  return result;
}

}  // namespace

std::span<const std::string_view> names_of_edit() { return kEdits; }

bool has_position(Edit edit) {
  return edit == Edit::kFrom || edit == Edit::kNanToken || edit == Edit::kNudge;
}

bool has_edit(Edit edit, std::span<const TensorSpec> tensors) {
  switch (edit) {
    case Edit::kHiddenNan:
      return has_role(tensors, Role::kKey) || has_role(tensors, Role::kWord);
    case Edit::kUniform:
      return has_role(tensors, Role::kQuery);
    case Edit::kSwamped:
      return std::any_of(tensors.begin(), tensors.end(), can_be_swamped);
    case Edit::kValuesTwice:
      return std::any_of(tensors.begin(), tensors.end(),
                         [](const TensorSpec& spec) { return spec.value_power != 0; });
    case Edit::kFrom:
    case Edit::kNanToken:
    case Edit::kNudge:
      return positions_of(edit, tensors) > 0;
    default:
      return true;
  }
}

std::string broken_edit(const Problem& problem, std::span<const TensorSpec> tensors) {
  const std::string_view name = kEdits[static_cast<std::size_t>(problem.edit)];
  if (!has_edit(problem.edit, tensors)) {
    return fmt::format("edit is {}; allowed here: {}", name, choices(tensors));
  }
  const Index last = has_position(problem.edit) ? positions_of(problem.edit, tensors) - 1 : 0;
  if (problem.edit_at >= 0 && problem.edit_at <= last) return "";
  return fmt::format("the position of edit={} is {}; allowed: 0 to {}", name, problem.edit_at,
                     last);
}

void repair_edit(Problem& problem, std::span<const TensorSpec> tensors) {
  if (!has_edit(problem.edit, tensors)) problem.edit = Edit::kNone;
  const Index last = has_position(problem.edit) ? positions_of(problem.edit, tensors) - 1 : 0;
  problem.edit_at = std::clamp<Index>(problem.edit_at, 0, last);
}

}  // namespace shardproof
