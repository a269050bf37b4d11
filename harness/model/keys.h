// Keys: the entries of a case's text, "key=value": how each is printed and parsed, and which
// Problem fields a key stands for.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model/case.h"

namespace shardproof {

struct Key {
  std::string_view name;
  bool placement = false;
  bool required = true;

  // The value's text, or "" when it is at its default and may be left out.
  std::string (*print)(const Case& value);

  // Throws Error saying which rule `text` breaks and what would be allowed.
  void (*parse)(std::string_view text, Case& value, const Vocabulary& vocabulary);

  // Copies what the key stands for. Null for placement keys.
  void (*copy)(const Problem& from, Problem& to);
};

std::span<const Key> all_keys();
std::vector<Key> keys_of_placement();  // those of them that are part of the placement
const Key* find_key(std::string_view name);

}  // namespace shardproof
