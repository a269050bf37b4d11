// The rules for one entry of a plugin's table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/plugin/kernels.h"

namespace shardproof {

// The operators that plugins can compute: "attention, mlp, collective".
std::string choices_of_operators();

// The mesh axes along which implementations of an operator can be cut.
std::vector<std::string_view> axes_of_operator(std::string_view op);

// The places of a kernel that the entry describes; null for a sharded implementation.
const std::vector<KernelPlace>* places_of(const shardproof_subject& described);

// Which rule the entry breaks, or an empty string. Its contract is not asked.
std::string broken_rule(const shardproof_subject& described);

}  // namespace shardproof
