#include "harness/model/key_values.h"

#include <fmt/format.h>

#include <charconv>

#include "harness/model/require.h"

namespace shardproof {
namespace {

constexpr Index kLargest = 1 << 20;
constexpr int kMostRanks = 4096;

}  // namespace

std::string choices(std::span<const std::string_view> names) {
  std::string result;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) result += i + 1 == names.size() ? " or " : ", ";
    result += names[i];
  }
  return result;
}

Index parse_index(std::string_view text, Index minimum) {
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < minimum ||
      value > kLargest) {
    throw Error(fmt::format("'{}' is not a whole number from {} to {}", text, minimum, kLargest));
  }
  return value;
}

double parse_real(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) ||
      !(value <= 1e30)) {
    throw Error(fmt::format("'{}' is not a number above 0 and at most 1e30", text));
  }
  return value;
}

std::uint64_t parse_seed(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() > 16) {
    throw Error(fmt::format("'{}' is not a hexadecimal number of at most 16 digits", text));
  }
  return value;
}

std::string print_pair(Index first, Index second) {
  return first == second ? fmt::format("{}", first) : fmt::format("{}/{}", first, second);
}

void parse_pair(std::string_view text, Index& first, Index& second) {
  const auto slash = text.find('/');
  first = parse_index(text.substr(0, slash), 1);
  second = slash == std::string_view::npos ? first : parse_index(text.substr(slash + 1), 1);
}

std::size_t parse_name(std::string_view text, std::span<const std::string_view> names) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) {
    throw Error(fmt::format("'{}' is unknown; allowed: {}", text, choices(names)));
  }
  return static_cast<std::size_t>(found - names.begin());
}

std::string print_numbered(const NumberedName& value, std::span<const std::string_view> names,
                           bool (*takes_number)(std::size_t)) {
  const std::string name(names[value.name]);
  return takes_number(value.name) ? fmt::format("{}:{}", name, value.number) : name;
}

NumberedName parse_numbered(std::string_view text, std::span<const std::string_view> names,
                            bool (*takes_number)(std::size_t)) {
  const auto colon = text.find(':');
  const std::size_t name = parse_name(text.substr(0, colon), names);
  const bool numbered = takes_number(name);
  if (numbered != (colon != std::string_view::npos)) {
    throw Error(fmt::format("'{}' must {} a position, as {}:3 has", text,
                            numbered ? "have" : "not have", numbered ? names[name] : "from"));
  }
  return {name, numbered ? parse_index(text.substr(colon + 1)) : 0};
}

MaskChoice parse_mask(std::string_view text, std::span<const Mask* const> masks) {
  const auto colon = text.find(':');
  std::vector<std::string_view> names;
  const Mask* mask = nullptr;
  for (const Mask* candidate : masks) {
    names.push_back(candidate->name);
    if (candidate->name == text.substr(0, colon)) mask = candidate;
  }
  if (!mask) {
    throw Error(fmt::format("'{}' is unknown; allowed: {}", text.substr(0, colon), choices(names)));
  }
  MaskChoice choice{.mask = mask};
  const std::string_view given = colon == std::string_view::npos ? "" : text.substr(colon);
  const auto count =
      std::count_if(given.begin(), given.end(), [](char c) { return c == ':' || c == ','; });
  if (count != std::ssize(mask->parameters)) {
    std::string form(mask->name);
    for (std::size_t i = 0; i < mask->parameters.size(); ++i) {
      form += (i == 0 ? ":" : ",") + std::string(mask->parameters[i].name);
    }
    throw Error(fmt::format("'{}' is not of the form {}", text, form));
  }
  if (count > 0) choice.a = parse_index(given.substr(1, given.find(',') - 1));
  if (count > 1) choice.b = parse_index(given.substr(given.find(',') + 1));
  return choice;
}

Mesh parse_mesh(std::string_view text) {
  Mesh mesh;
  if (text == "1") return mesh;
  Index ranks = 1;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view axis = text.substr(at, end - at);
    at = end + 1;
    const auto colon = axis.find(':');
    const std::string name(axis.substr(0, colon));
    const bool known = std::find(kAxisNames.begin(), kAxisNames.end(), name) != kAxisNames.end();
    const bool repeated = std::any_of(mesh.axes.begin(), mesh.axes.end(),
                                      [&](const Axis& other) { return other.name == name; });
    if (colon == std::string_view::npos || !known || repeated) {
      throw Error(fmt::format(
          "'{}' is not a mesh; allowed: 1, or axes tp, cp, dp once each, as in tp:2,cp:4", text));
    }
    const Index size = parse_index(axis.substr(colon + 1), 1);
    ranks *= size;
    if (ranks > kMostRanks) {
      throw Error(fmt::format("'{}' has more than {} ranks", text, kMostRanks));
    }
    mesh.axes.push_back({name, static_cast<int>(size)});
  }
  return mesh;
}

}  // namespace shardproof
