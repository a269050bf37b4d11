#include "harness/check/domain.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "harness/check/generate.h"
#include "harness/model/operator.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

constexpr Index kMostRanks = 4096;
constexpr Index kMostProcesses = 4;  // unless asked for more

template <class Range, class Name>
std::string listed(const Range& range, Name name_of) {
  std::string result;
  for (const auto& entry : range) {
    result += (result.empty() ? "" : ", ") + std::string(name_of(entry));
  }
  return result;
}

[[noreturn]] void unknown(std::string_view option, std::string_view name, std::string choices) {
  throw Error(fmt::format("--{}: '{}' is unknown; choices: {}", option, name, choices));
}

template <class Entry>
std::vector<const Entry*> named(std::string_view option, const std::vector<std::string>& names,
                                const std::vector<const Entry*>& entries) {
  std::vector<const Entry*> result;
  for (const std::string& name : names) {
    const auto found = std::find_if(entries.begin(), entries.end(),
                                    [&](const Entry* entry) { return entry->name == name; });
    if (found == entries.end()) {
      unknown(option, name, listed(entries, [](const Entry* entry) { return entry->name; }));
    }
    result.push_back(*found);
  }
  return result;
}

template <class Entry>
void require_available(std::string_view option, const std::string& name,
                       const std::vector<Entry>& entries, const Tables& tables) {
  for (const Entry& entry : entries) {
    if (entry.name != name) continue;
    if (const std::string why = why_not(entry, tables.devices); !why.empty()) {
      throw Error(fmt::format("--{}={} cannot run here: {}", option, name, why));
    }
    return;
  }
  unknown(option, name, listed(entries, [](const Entry& entry) { return entry.name; }));
}

void require_device_of_world(const Restrictions& restrictions, const Tables& tables) {
  for (const WorldEntry& entry : tables.worlds) {
    if (entry.name != restrictions.world || entry.device.empty()) continue;
    if (entry.device == restrictions.device) continue;
    throw Error(fmt::format("--world={} takes --device={}", entry.name, entry.device));
  }
}

FieldDomain whole(const Field& field, bool medium, const Vocabulary& vocabulary) {
  FieldDomain domain;
  domain.field = &field;
  domain.is_choice = is_choice(field, vocabulary);
  domain.minimum = field.minimum;
  domain.maximum = field.largest(medium, vocabulary);
  if (domain.is_choice) {
    for (Index i = 0; i <= domain.maximum; ++i) domain.choices.push_back(i);
  }
  return domain;
}

FieldDomain& find(Domain& domain, std::string_view name) {
  const auto found =
      std::find_if(domain.fields.begin(), domain.fields.end(),
                   [&](const FieldDomain& each) { return each.field->name == name; });
  require(found != domain.fields.end(), "restricted fields exist");
  return *found;
}

void restrict_choice(Domain& domain, std::string_view option,
                     const std::vector<std::string>& names) {
  if (names.empty()) return;
  FieldDomain& field = find(domain, option);
  const auto name_of = [&](Index i) { return choice_name(*field.field, i, domain.vocabulary); };
  std::vector<Index> kept;
  for (const std::string& name : names) {
    const auto found = std::find_if(field.choices.begin(), field.choices.end(),
                                    [&](Index i) { return name_of(i) == name; });
    if (found == field.choices.end()) unknown(option, name, listed(field.choices, name_of));
    kept.push_back(*found);
  }
  field.choices = kept;
  field.restricted = true;
  const bool may_be_dense = std::find(kept.begin(), kept.end(), 0) != kept.end();
  std::erase_if(domain.subjects, [&](const Subject* subject) {
    if (option == "views") return !may_be_dense && !subject->any_views;
    if (field.field->placement) return !subject->uses_layout;
    const auto& operators = domain.vocabulary.operators;
    const auto op = std::find_if(operators.begin(), operators.end(),
                                 [&](const Operator* each) { return each->name == subject->op; });
    const auto keys = (*op)->keys;
    return std::find(keys.begin(), keys.end(), field.field->key) == keys.end();
  });
  if (domain.subjects.empty()) {
    throw Error(fmt::format("--{}: none of the subjects asked for uses a {}", option, option));
  }
}

Index parse_size(std::string_view text) {
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > kMostRanks) {
    throw Error(
        fmt::format("--mesh: '{}' is not a number of ranks from 1 to {}", text, kMostRanks));
  }
  return value;
}

void restrict_axis(Domain& domain, std::string_view part) {
  const auto equals = part.find('=');
  const std::string_view axis = part.substr(0, equals);
  const bool known = std::find(kAxisNames.begin(), kAxisNames.end(), axis) != kAxisNames.end();
  if (equals == std::string_view::npos || !known) {
    throw Error(fmt::format(
        "--mesh: '{}' is not of the form tp=N or tp=N..M (or cp, dp), separated by commas", part));
  }
  const std::string_view range = part.substr(equals + 1);
  const auto dots = range.find("..");
  FieldDomain& field = find(domain, fmt::format("mesh.{}", axis));
  field.minimum = parse_size(range.substr(0, dots));
  field.maximum =
      dots == std::string_view::npos ? field.minimum : parse_size(range.substr(dots + 2));
  if (field.maximum < field.minimum) {
    throw Error(fmt::format("--mesh: '{}': the range ends before it begins", part));
  }
}

void restrict_mesh(Domain& domain, std::string_view mesh) {
  if (mesh.empty()) return;
  Index least = 1;
  domain.most_ranks = 1;
  for (std::string_view axis : kAxisNames) {
    FieldDomain& field = find(domain, fmt::format("mesh.{}", axis));
    field.restricted = true;
    field.minimum = field.maximum = 1;
  }
  for (std::string_view rest = mesh == "1" ? "" : mesh; !rest.empty();) {
    const auto comma = rest.find(',');
    restrict_axis(domain, rest.substr(0, comma));
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
  }
  for (std::string_view axis : kAxisNames) {
    const FieldDomain& field = find(domain, fmt::format("mesh.{}", axis));
    least *= field.minimum;
    domain.most_ranks = std::min(kMostRanks, domain.most_ranks * field.maximum);
    std::erase_if(domain.subjects, [&](const Subject* subject) {
      const auto& axes = subject->axes;
      return field.minimum > 1 && std::find(axes.begin(), axes.end(), axis) == axes.end();
    });
  }
  if (least > kMostRanks) {
    throw Error(fmt::format("--mesh={}: more than {} ranks", mesh, kMostRanks));
  }
  if (domain.subjects.empty()) {
    throw Error(fmt::format("--mesh={}: none of the subjects asked for can be cut so", mesh));
  }
}

void restrict_ranks(Domain& domain, int ranks) {
  if (ranks == 0) return;
  if (ranks < 1 || ranks > kMostRanks) {
    throw Error(fmt::format("--ranks: {} is not a number from 1 to {}", ranks, kMostRanks));
  }
  domain.most_ranks = ranks;
}

std::vector<const Subject*> chosen_subjects(const Restrictions& asked, const Tables& tables) {
  std::vector<const Subject*> result = named("subject", asked.subjects, tables.subjects);
  if (result.empty()) {
    for (const Subject* subject : tables.plugged.empty() ? tables.subjects : tables.plugged) {
      if (!subject->fault) result.push_back(subject);
    }
  }
  const auto operators = named("operator", asked.operators, tables.operators);
  if (operators.empty()) return result;
  std::erase_if(result, [&](const Subject* subject) {
    return std::none_of(operators.begin(), operators.end(),
                        [&](const Operator* op) { return op->name == subject->op; });
  });
  if (result.empty()) {
    throw Error(fmt::format("--operator={}: none of the subjects asked for computes it",
                            listed(asked.operators, [](const std::string& name) { return name; })));
  }
  return result;
}

// Removes the subjects whose cases cannot keep the restrictions after repair.
void drop_impossible(Domain& domain) {
  constexpr std::uint64_t kTries = 64;
  const std::vector<const Subject*> all = domain.subjects;
  domain.subjects.clear();
  std::vector<const Subject*> possible;
  for (const Subject* subject : all) {
    Domain alone = domain;
    alone.subjects = {subject};
    const Generator generator(alone, 0);
    bool met = false;
    for (std::uint64_t i = 0; i < kTries && !met; ++i) met = domain.contains(generator.draw(i));
    if (met) possible.push_back(subject);
  }
  if (possible.empty()) {
    throw Error(fmt::format("the restrictions contradict each other for {}",
                            listed(all, [](const Subject* subject) { return subject->name; })));
  }
  domain.subjects = possible;
}

}  // namespace

bool is_choice(const Field& field, const Vocabulary& vocabulary) {
  return field.minimum == 0 && field.simplest == 0 &&
         field.largest(false, vocabulary) == field.largest(true, vocabulary);
}

std::string choice_name(const Field& field, Index choice, const Vocabulary& vocabulary) {
  Case value;
  field.set(value, choice, vocabulary);
  const Problem& problem = value.problem;
  if (field.name == "mask") return std::string(problem.mask.mask->name);
  if (field.name == "dtype") return std::string(format(problem.dtype).name);
  if (field.name == "data") return std::string(names_of_recipe()[static_cast<int>(problem.data)]);
  if (field.name == "layout") return std::string(name(value.placement.layout));
  if (field.name == "views") return std::string(names_of_views()[static_cast<int>(choice)]);
  return std::to_string(choice);
}

bool Domain::contains(const Case& value) const {
  return std::all_of(fields.begin(), fields.end(), [&](const FieldDomain& each) {
    if (!each.restricted) return true;
    const Index got = each.field->get(value, vocabulary);
    if (!each.is_choice) return got >= each.minimum && got <= each.maximum;
    return std::find(each.choices.begin(), each.choices.end(), got) != each.choices.end();
  });
}

Domain make_domain(const Restrictions& restrictions, const Tables& tables) {
  Domain domain;
  domain.vocabulary = tables.vocabulary();
  domain.subjects = chosen_subjects(restrictions, tables);
  domain.properties = named("property", restrictions.properties, tables.properties);
  if (domain.properties.empty()) domain.properties = tables.properties;
  require_available("world", restrictions.world, tables.worlds, tables);
  require_available("device", restrictions.device, tables.devices, tables);
  require_device_of_world(restrictions, tables);
  domain.world = restrictions.world;
  domain.device = restrictions.device;
  if (restrictions.size != "small" && restrictions.size != "medium") {
    unknown("size", restrictions.size, "small, medium");
  }
  domain.medium = restrictions.size == "medium";
  for (const Field& field : all_fields()) {
    domain.fields.push_back(whole(field, domain.medium, domain.vocabulary));
  }
  restrict_choice(domain, "mask", restrictions.masks);
  restrict_choice(domain, "dtype", restrictions.dtypes);
  restrict_choice(domain, "data", restrictions.data);
  restrict_choice(domain, "layout", restrictions.layouts);
  restrict_choice(domain, "views", restrictions.views);
  if (domain.world != "sim") domain.most_ranks = kMostProcesses;
  restrict_mesh(domain, restrictions.mesh);
  restrict_ranks(domain, restrictions.ranks);
  drop_impossible(domain);
  return domain;
}

void settle(Case& value, const Subject& subject) {
  repair(value.problem);
  repair(value.placement, subject.axes, subject.uses_layout);
  if (!subject.any_views) value.placement.views = Views::kDense;
  if (!subject.reshards) value.placement.stored = 0;
  if (!subject.adapt) return;
  subject.adapt(value);
  repair(value.problem);
}

}  // namespace shardproof
