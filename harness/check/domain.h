// Domain: the set of cases that a campaign draws from, made from the restrictions on its command
// line. Every case is drawn inside it; a restriction that nothing can meet is an Error.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/check/judge.h"
#include "harness/model/field.h"

namespace shardproof {

// What the user asked for, as text. An empty list means no restriction.
struct Restrictions {
  std::vector<std::string> subjects{};  // default: those of plugins, else all but mutants
  std::vector<std::string> operators{};
  std::vector<std::string> properties{};
  std::vector<std::string> masks{};
  std::vector<std::string> dtypes{};
  std::vector<std::string> data{};
  std::vector<std::string> layouts{};
  std::vector<std::string> views{};
  std::string mesh{};  // "tp=1..4,cp=8"; axes not named have one rank
  std::string size = "small";
  std::string world = "sim";
  std::string device = "cpu";
  int ranks = 0;  // at most; 0: 16 simulated ones, 4 processes, or what the mesh needs
};

// The values of one field that may be drawn.
struct FieldDomain {
  const Field* field = nullptr;
  bool is_choice = false;
  bool restricted = false;
  std::vector<Index> choices;  // of a choice
  Index minimum = 0;           // of a size
  Index maximum = 0;
};

struct Domain {
  std::vector<const Subject*> subjects;
  std::vector<const Property*> properties;  // never empty
  std::vector<FieldDomain> fields;
  std::string world;
  std::string device;
  bool medium = false;
  Index most_ranks = 16;
  Vocabulary vocabulary;

  // Whether a case keeps every restriction (repair may have had to break one).
  bool contains(const Case& value) const;
};

Domain make_domain(const Restrictions& restrictions, const Tables& tables);

// Whether a field is an index into a table: it starts at 0 and does not grow with the cases.
bool is_choice(const Field& field, const Vocabulary& vocabulary);

// The name of `choice` of a field that --mask, --dtype, --data, --layout or --views restricts; its
// number for any other field.
std::string choice_name(const Field& field, Index choice, const Vocabulary& vocabulary);

// Makes a case valid for `subject` after its fields were set to anything.
void settle(Case& value, const Subject& subject);

}  // namespace shardproof
