// Hypotheses: what known faults would make of an operator's answer. Only faults that may stay below
// the roundings are listed: larger ones exceed the bounds by themselves.
#pragma once

#include <span>

#include "harness/model/operator.h"

namespace shardproof {

std::span<const Hypothesis> attention_hypotheses();
std::span<const Hypothesis> mlp_hypotheses();
std::span<const Hypothesis> norm_mlp_hypotheses();

}  // namespace shardproof
