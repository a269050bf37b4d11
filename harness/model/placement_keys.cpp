#include <fmt/format.h>

#include "harness/model/key_values.h"
#include "harness/model/keys.h"

namespace shardproof {
namespace {

std::span<const std::string_view> layout_names() {
  static const auto names = [] {
    std::vector<std::string_view> result;
    for (Layout layout : all_layouts()) result.push_back(name(layout));
    return result;
  }();
  return names;
}

// A key of the placement that is one name of a table.
template <std::string Placement::*kMember, std::vector<std::string_view> Vocabulary::*kNames>
Key placement_name(std::string_view name) {
  return {.name = name,
          .placement = true,
          .print = [](const Case& c) { return c.placement.*kMember; },
          .parse =
              [](std::string_view text, Case& c, const Vocabulary& vocabulary) {
                const auto& names = vocabulary.*kNames;
                c.placement.*kMember = names[parse_name(text, names)];
              },
          .copy = nullptr};
}

Key mesh_key() {
  return {.name = "mesh",
          .placement = true,
          .print = [](const Case& c) { return c.placement.mesh.text(); },
          .parse = [](std::string_view text, Case& c,
                      const Vocabulary&) { c.placement.mesh = parse_mesh(text); },
          .copy = nullptr};
}

// An optional key of the placement that is one of a list of names; the first is its default.
template <auto kMember, std::span<const std::string_view> (*kNames)()>
Key placement_choice(std::string_view name) {
  using Enum = std::remove_cvref_t<decltype(std::declval<Placement>().*kMember)>;
  return {.name = name,
          .placement = true,
          .required = false,
          .print =
              [](const Case& c) {
                const auto index = static_cast<std::size_t>(c.placement.*kMember);
                return std::string(index == 0 ? "" : kNames()[index]);
              },
          .parse =
              [](std::string_view text, Case& c, const Vocabulary&) {
                c.placement.*kMember = static_cast<Enum>(parse_name(text, kNames()));
              },
          .copy = nullptr};
}

Key stored_key() {
  return {.name = "stored",
          .placement = true,
          .required = false,
          .print =
              [](const Case& c) {
                return c.placement.stored ? fmt::format("{}", c.placement.stored) : "";
              },
          .parse = [](std::string_view text, Case& c,
                      const Vocabulary&) { c.placement.stored = parse_index(text); },
          .copy = nullptr};
}

Key schedule_key() {
  return {.name = "schedule",
          .placement = true,
          .required = false,
          .print =
              [](const Case& c) {
                return c.placement.schedule ? fmt::format("{:x}", c.placement.schedule) : "";
              },
          .parse = [](std::string_view text, Case& c,
                      const Vocabulary&) { c.placement.schedule = parse_seed(text); },
          .copy = nullptr};
}

}  // namespace

std::vector<Key> keys_of_placement() {
  return {
      placement_name<&Placement::world, &Vocabulary::worlds>("world"),
      placement_name<&Placement::device, &Vocabulary::devices>("device"),
      mesh_key(),
      placement_choice<&Placement::layout, layout_names>("layout"),
      placement_choice<&Placement::views, names_of_views>("views"),
      stored_key(),
      schedule_key(),
  };
}

}  // namespace shardproof
