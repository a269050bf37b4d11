// Edits: deliberate changes of a problem's inputs, made by properties that compare a problem with
// its edited twin. An edit is part of the problem's text, so that what a property found replays.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model/operator.h"

namespace shardproof {

std::span<const std::string_view> names_of_edit();

// Whether the edit's text carries a position, "from:3" for example.
bool has_position(Edit edit);

// The steps of Edit::kNudge by position: pairs of opposite steps, each twice as long as the last.
// Far below the root of the smallest epsilon of a norm, over which the output of a flat row bends,
// and far above the roundings of float64.
inline constexpr std::array<double, 6> kNudges{0x1p-18,  -0x1p-18, 0x1p-17,
                                               -0x1p-17, 0x1p-16,  -0x1p-16};

// Which rule the problem's edit breaks for an operator with these tensors, or an empty string.
std::string broken_edit(const Problem& problem, std::span<const TensorSpec> tensors);

// Turns the problem's edit into one that such an operator has.
void repair_edit(Problem& problem, std::span<const TensorSpec> tensors);

// Whether an operator with these tensors has this edit, at any position.
bool has_edit(Edit edit, std::span<const TensorSpec> tensors);

}  // namespace shardproof
