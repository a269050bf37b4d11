// The values that keys of a case's text take: parsing that says what is wrong and what is allowed.
// Internal to the model.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "harness/model/case.h"

namespace shardproof {

// "a, b or c"
std::string choices(std::span<const std::string_view> names);

// All throw Error with the rule and what would be allowed.
Index parse_index(std::string_view text, Index minimum = 0);
double parse_real(std::string_view text);  // above 0
std::uint64_t parse_seed(std::string_view text);
std::size_t parse_name(std::string_view text, std::span<const std::string_view> names);
MaskChoice parse_mask(std::string_view text, std::span<const Mask* const> masks);
Mesh parse_mesh(std::string_view text);

// "from:3": one of `names`, with a number where takes_number(its index) says so.
struct NumberedName {
  std::size_t name = 0;
  Index number = 0;
};
std::string print_numbered(const NumberedName& value, std::span<const std::string_view> names,
                           bool (*takes_number)(std::size_t));
NumberedName parse_numbered(std::string_view text, std::span<const std::string_view> names,
                            bool (*takes_number)(std::size_t));

// "4/2"; "4" when both are the same.
std::string print_pair(Index first, Index second);
void parse_pair(std::string_view text, Index& first, Index& second);

}  // namespace shardproof
