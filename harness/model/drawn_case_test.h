// Cases drawn by RapidCheck for the tests of the model, and the tables that they use. Every drawn
// case is repaired, so it breaks no rule.
#pragma once

#include <rapidcheck/gtest.h>

#include <string>

#include "harness/masks/masks.h"
#include "harness/model/field.h"
#include "harness/model/operator.h"
#include "reference/operators.h"

namespace shardproof {

inline const Vocabulary& test_vocabulary() {
  static const Vocabulary vocabulary{.operators = all_operators(),
                                     .masks = all_masks(),
                                     .subjects = {"single", "ring_attention"},
                                     .worlds = {"sim", "mpi"},
                                     .devices = {"cpu", "cuda"}};
  return vocabulary;
}

// Every field at its simplest, unrepaired.
inline Case simplest_case(const Operator& op) {
  Case value;
  value.problem.op = &op;
  value.placement.subject = "single";
  for (const Field& field : all_fields()) field.set(value, field.simplest, test_vocabulary());
  return value;
}

// Every field drawn from `minimum` to its largest value or beyond it, unrepaired.
inline Case drawn_raw_case() {
  const auto& operators = test_vocabulary().operators;
  Case value = simplest_case(*operators[*rc::gen::inRange<std::size_t>(0, operators.size())]);
  for (const Field& field : all_fields()) {
    const Index beyond = field.largest(*rc::gen::arbitrary<bool>(), test_vocabulary()) + 3;
    field.set(value, *rc::gen::inRange(field.minimum, beyond), test_vocabulary());
  }
  value.problem.seed = *rc::gen::arbitrary<std::uint64_t>();
  value.problem.edit = static_cast<Edit>(*rc::gen::inRange(0, 3));
  value.problem.edit_at = value.problem.edit == Edit::kFrom ? *rc::gen::inRange<Index>(0, 9) : 0;
  value.placement.subject = *rc::gen::element("single", "ring_attention");
  value.placement.world = *rc::gen::element("sim", "mpi");
  value.placement.device = *rc::gen::element("cpu", "cuda");
  value.placement.schedule = *rc::gen::arbitrary<std::uint64_t>();
  return value;
}

inline Case drawn_case() {
  Case value = drawn_raw_case();
  repair(value.problem);
  return value;
}

}  // namespace shardproof
