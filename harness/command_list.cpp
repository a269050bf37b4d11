#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "harness/command.h"
#include "harness/model/field.h"
#include "harness/model/operator.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

void line(std::string_view name, std::string_view summary = "") {
  if (summary.empty()) {
    fmt::print("{}\n", name);
  } else {
    fmt::print("{:<28} {}\n", name, summary);
  }
}

template <class Entries>
void lines(const Entries& entries) {
  for (const auto* entry : entries) line(entry->name, entry->summary);
}

void list_subjects(const Tables& tables) {
  for (const Subject* subject : tables.subjects) {
    if (!subject->fault) line(subject->name, fmt::format("{}: {}", subject->op, subject->summary));
  }
}

void list_mutants(const Tables& tables) {
  for (const Subject* subject : tables.subjects) {
    const Fault* fault = subject->fault;
    if (!fault) continue;
    line(subject->name,
         fmt::format("{}, killed by {}: {}", fault->kind, fault->killer, fault->says));
  }
}

void list_properties(const Tables& tables) {
  for (const Property* property : tables.properties) {
    line(property->name, fmt::format("{}: {}", name(property->family), property->claim));
  }
}

void list_dtypes(const Tables&) {
  for (DType type : all_dtypes()) {
    line(format(type).name, fmt::format("{} significand bits, largest {:.6g}",
                                        format(type).precision, format(type).maximum));
  }
}

void list_layouts(const Tables&) {
  for (Layout layout : all_layouts()) line(name(layout));
}

void list_views(const Tables&) {
  for (std::string_view views : names_of_views()) line(views);
}

void list_data(const Tables&) {
  for (std::string_view recipe : names_of_recipe()) line(recipe);
}

void list_fields(const Tables& tables) {
  const Vocabulary vocabulary = tables.vocabulary();
  for (const Field& field : all_fields()) {
    line(field.name, fmt::format("from {}, drawn up to {} (medium: {}), shrinks to {}",
                                 field.minimum, field.largest(false, vocabulary),
                                 field.largest(true, vocabulary), field.simplest));
  }
}

template <class Entry>
void list_places(const std::vector<Entry>& entries, const Tables& tables) {
  for (const Entry& entry : entries) {
    const std::string why = why_not(entry, tables.devices);
    line(entry.name, why.empty() ? std::string(entry.summary)
                                 : fmt::format("{} (not here: {})", entry.summary, why));
  }
}

struct Listing {
  std::string_view what;
  void (*print)(const Tables& tables);
};

constexpr std::array<Listing, 12> kListings{{
    {"subjects", list_subjects},
    {"mutants", list_mutants},
    {"operators", [](const Tables& tables) { lines(tables.operators); }},
    {"properties", list_properties},
    {"masks", [](const Tables& tables) { lines(tables.masks); }},
    {"dtypes", list_dtypes},
    {"data", list_data},
    {"layouts", list_layouts},
    {"views", list_views},
    {"worlds", [](const Tables& tables) { list_places(tables.worlds, tables); }},
    {"devices", [](const Tables& tables) { list_places(tables.devices, tables); }},
    {"fields", list_fields},
}};

std::string choices() {
  std::string result;
  for (const Listing& listing : kListings) {
    result += (result.empty() ? "" : ", ") + std::string(listing.what);
  }
  return result;
}

int run(const std::string& what, const Tables& tables) {
  const auto found = std::find_if(kListings.begin(), kListings.end(),
                                  [&](const Listing& listing) { return listing.what == what; });
  if (found == kListings.end()) {
    throw Error(fmt::format("list: '{}' is unknown; choices: {}", what, choices()));
  }
  found->print(tables);
  return kExitHolds;
}

}  // namespace

Command list_command(CLI::App& program, const Tables& tables) {
  CLI::App* app = program.add_subcommand("list", "list what there is: " + choices());
  app->footer("Examples:\n  shardproof list subjects\n  shardproof list masks\n");
  auto what = std::make_shared<std::string>();
  app->add_option("what", *what, choices())->required()->type_name("WHAT");
  return {app, [what, &tables] { return run(*what, tables); }};
}

}  // namespace shardproof
