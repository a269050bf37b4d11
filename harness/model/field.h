// Field: one number of a Case that generation draws and shrinking lowers. Choices (mask, dtype,
// ...) are indices into their tables, simplest first, so that every field is an integer.
#pragma once

#include <span>
#include <string_view>

#include "harness/model/case.h"

namespace shardproof {

struct Field {
  std::string_view name;  // "kv_heads", "mask.a", "mesh.cp"
  std::string_view key;   // the key of the case's text that it is part of
  bool placement = false;

  Index (*get)(const Case& value, const Vocabulary& vocabulary);

  // Any value in [minimum, ...] may be set; repair makes the case valid afterwards.
  void (*set)(Case& value, Index to, const Vocabulary& vocabulary);

  Index minimum;   // smallest meaningful value
  Index simplest;  // shrinking heads for this

  // The largest value worth drawing, for small and for medium problems.
  Index (*largest)(bool medium, const Vocabulary& vocabulary);

  // The largest value worth drawing where everything else is small; 0: it never stands out.
  Index longest = 0;
};

// Every field but the two seeds, parents before the fields that depend on them.
std::span<const Field> all_fields();

// Whether the operator of `value` uses the field (placement fields: always).
bool is_used(const Field& field, const Case& value);

// Makes any combination of field values a valid problem: clamps, rounds to divisors, clears what
// the operator does not use. Total and idempotent.
void repair(Problem& problem);

// Gives the mesh exactly these axes (kept in their order where it has them), sizes at least 1, and
// a contiguous layout unless the subject uses layouts. Subject::adapt may change more afterwards.
void repair(Placement& placement, std::span<const std::string_view> axes, bool uses_layout);

}  // namespace shardproof
