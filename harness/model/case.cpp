#include "harness/model/case.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/model/key_values.h"
#include "harness/model/keys.h"
#include "harness/model/operator.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> result;
  for (std::size_t at = 0;;) {
    at = text.find_first_not_of(" \t\n", at);
    if (at == std::string_view::npos) return result;
    const std::size_t end = std::min(text.find_first_of(" \t\n", at), text.size());
    result.push_back(text.substr(at, end - at));
    at = end;
  }
}

std::vector<std::string_view> placement_keys() {
  std::vector<std::string_view> result;
  for (const Key& key : all_keys()) {
    if (key.placement) result.push_back(key.name);
  }
  return result;
}

void append_keys(const Case& value, std::span<const std::string_view> names, std::string& text) {
  for (std::string_view name : names) {
    const std::string printed = find_key(name)->print(value);
    if (!printed.empty()) text += fmt::format(" {}={}", name, printed);
  }
}

// Parses "key=value" words, each key of `allowed` at most once and every required one.
void parse_keys(std::span<const std::string_view> pairs, std::span<const std::string_view> allowed,
                std::string_view side, Case& value, const Vocabulary& vocabulary) {
  std::vector<std::string_view> seen;
  for (std::string_view pair : pairs) {
    const auto equals = pair.find('=');
    const std::string_view name = pair.substr(0, equals);
    if (equals == std::string_view::npos) {
      throw Error(fmt::format("case: '{}' is not of the form key=value", pair));
    }
    if (std::find(allowed.begin(), allowed.end(), name) == allowed.end()) {
      throw Error(fmt::format("case: key '{}' is unknown to {}; allowed: {}", name, side,
                              choices(allowed)));
    }
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
      throw Error(fmt::format("case: key '{}' is given twice", name));
    }
    seen.push_back(name);
    try {
      find_key(name)->parse(pair.substr(equals + 1), value, vocabulary);
    } catch (const Error& error) {
      throw Error(fmt::format("case: key '{}': {}", name, error.what()));
    }
  }
  for (std::string_view name : allowed) {
    const bool missing = std::find(seen.begin(), seen.end(), name) == seen.end();
    if (missing && find_key(name)->required) {
      throw Error(fmt::format("case: key '{}' of {} is missing", name, side));
    }
  }
}

bool names_key(const Operator& op, std::string_view name) {
  return std::find(op.keys.begin(), op.keys.end(), name) != op.keys.end();
}

}  // namespace

std::span<const std::string_view> names_of_views() {
  static constexpr std::string_view kNames[] = {"dense",  "offset",     "strided",
                                                "packed", "transposed", "far"};
  return kNames;
}

std::string to_text(const Problem& problem) {
  std::string text(problem.op->name);
  Case value;
  value.problem = problem;
  append_keys(value, problem.op->keys, text);
  return text;
}

std::string to_text(const Placement& placement) {
  std::string text = placement.subject;
  Case value;
  value.placement = placement;
  append_keys(value, placement_keys(), text);
  return text;
}

std::string to_text(const Case& value) {
  return to_text(value.problem) + " | " + to_text(value.placement);
}

Case parse_case(std::string_view text, const Vocabulary& vocabulary) {
  const auto bar = text.find('|');
  if (bar == std::string_view::npos || text.find('|', bar + 1) != std::string_view::npos) {
    throw Error("case: expected 'problem | placement', with one '|'");
  }
  const auto problem = words(text.substr(0, bar));
  const auto placement = words(text.substr(bar + 1));
  if (problem.empty()) throw Error("case: the operator's name is missing before '|'");
  if (placement.empty()) throw Error("case: the subject's name is missing after '|'");

  Case value;
  std::vector<std::string_view> names;
  for (const Operator* op : vocabulary.operators) {
    names.push_back(op->name);
    if (op->name == problem[0]) value.problem.op = op;
  }
  const Operator* op = value.problem.op;
  if (!op) {
    throw Error(
        fmt::format("case: operator '{}' is unknown; allowed: {}", problem[0], choices(names)));
  }
  const auto& subjects = vocabulary.subjects;
  if (std::find(subjects.begin(), subjects.end(), placement[0]) == subjects.end()) {
    throw Error(
        fmt::format("case: subject '{}' is unknown; allowed: {}", placement[0], choices(subjects)));
  }
  value.placement.subject = placement[0];
  parse_keys(std::span(problem).subspan(1), op->keys, fmt::format("operator {}", op->name), value,
             vocabulary);
  parse_keys(std::span(placement).subspan(1), placement_keys(), "the placement", value, vocabulary);
  // Self-attention: the keys are the queries' own tokens.
  if (names_key(*op, "q") && !names_key(*op, "kv")) value.problem.kv = value.problem.q;
  if (const std::string rule = broken_rule(value); !rule.empty()) {
    throw Error(fmt::format("case: {}", rule));
  }
  return value;
}

std::string broken_rule(const Case& value) {
  const Problem& problem = value.problem;
  if (problem.mask.mask) {
    const std::array<Index, 2> given{problem.mask.a, problem.mask.b};
    for (std::size_t i = 0; i < problem.mask.mask->parameters.size(); ++i) {
      const MaskParameter& parameter = problem.mask.mask->parameters[i];
      const Index maximum = parameter.maximum(problem.q, problem.kv);
      if (given[i] < parameter.minimum || given[i] > maximum) {
        return fmt::format("mask {}: {} is {}; allowed: {} to {}", problem.mask.mask->name,
                           parameter.name, given[i], parameter.minimum, maximum);
      }
    }
  }
  return problem.op->broken_rule(problem);
}

}  // namespace shardproof
