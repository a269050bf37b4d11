#include "harness/model/field.h"

#include <gtest/gtest.h>

#include <set>

#include "harness/model/drawn_case_test.h"
#include "harness/model/keys.h"

namespace shardproof {
namespace {

const Vocabulary& vocabulary() { return test_vocabulary(); }

Case starting_case(const Operator& op) {
  Case value = simplest_case(op);
  value.placement.mesh = {{{"tp", 2}, {"cp", 3}}};
  return value;
}

TEST(Field, NamesAreUniqueAndKeysExist) {
  std::set<std::string_view> names;
  for (const Field& field : all_fields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    const Key* key = find_key(field.key);
    ASSERT_NE(key, nullptr) << field.name;
    EXPECT_EQ(key->placement, field.placement) << field.name;
  }
}

TEST(Field, EveryKeyOfEveryOperatorHasAField) {
  for (const Operator* op : vocabulary().operators) {
    for (std::string_view key : op->keys) {
      if (key == "seed" || key == "edit") continue;  // not drawn field by field
      bool found = false;
      for (const Field& field : all_fields()) found = found || field.key == key;
      EXPECT_TRUE(found) << op->name << ' ' << key;
    }
  }
}

TEST(Field, WhatIsSetIsWhatOneGetsAndNothingElseChanges) {
  const Case start = starting_case(*vocabulary().operators[0]);
  for (const Field& field : all_fields()) {
    for (Index to = field.minimum; to <= field.largest(false, vocabulary()); ++to) {
      Case value = start;
      field.set(value, to, vocabulary());
      ASSERT_EQ(field.get(value, vocabulary()), to) << field.name;
      for (const Field& other : all_fields()) {
        if (other.name == field.name) continue;
        ASSERT_EQ(other.get(value, vocabulary()), other.get(start, vocabulary()))
            << field.name << " changes " << other.name;
      }
    }
  }
}

TEST(Field, AChoiceBeyondItsTableIsTheLastOne) {
  for (const Field& field : all_fields()) {
    Case value = starting_case(*vocabulary().operators[0]);
    if (field.name == "mask" || field.name == "dtype" || field.name == "layout" ||
        field.name == "views" || field.name == "data" || field.name == "softcap") {
      const Index largest = field.largest(false, vocabulary());
      field.set(value, largest + 1000, vocabulary());
      EXPECT_EQ(field.get(value, vocabulary()), largest) << field.name;
    }
  }
}

TEST(Field, RangesHoldTheSimplestValueAndGrowWithTheSize) {
  for (const Field& field : all_fields()) {
    EXPECT_GE(field.simplest, field.minimum) << field.name;
    EXPECT_LE(field.simplest, field.largest(false, vocabulary())) << field.name;
    EXPECT_GT(field.largest(false, vocabulary()), field.minimum) << field.name;
  }
}

TEST(Field, ProblemFieldsAreUsedOnlyByOperatorsWithTheirKey) {
  for (const Operator* op : vocabulary().operators) {
    const std::set<std::string_view> keys(op->keys.begin(), op->keys.end());
    Case value;
    value.problem.op = op;
    for (const Field& field : all_fields()) {
      EXPECT_EQ(is_used(field, value), field.placement || keys.contains(field.key)) << field.name;
    }
  }
}

RC_GTEST_PROP(Repair, MakesAnyDrawnProblemValid, ()) {
  Case value = drawn_raw_case();
  repair(value.problem);
  RC_ASSERT(broken_rule(value) == "");
}

RC_GTEST_PROP(Repair, ChangesNothingTheSecondTime, ()) {
  Case value = drawn_raw_case();
  repair(value.problem);
  const Case once = value;
  repair(value.problem);
  RC_ASSERT(value == once);
}

RC_GTEST_PROP(Repair, ClearsWhatTheOperatorDoesNotUse, ()) {
  Case value = drawn_raw_case();
  repair(value.problem);
  Case untouched;
  untouched.problem.op = value.problem.op;
  for (const Field& field : all_fields()) {
    if (is_used(field, value) || field.name == "mask") continue;
    if (field.name == "kv" && value.problem.kv == value.problem.q) continue;  // self-attention
    RC_ASSERT(field.get(value, vocabulary()) == field.get(untouched, vocabulary()));
  }
}

RC_GTEST_PROP(Repair, ToleratesEnormousNumbers, ()) {
  Case value = drawn_raw_case();
  for (const Field& field : all_fields()) {
    if (field.placement || *rc::gen::inRange(0, 4) != 0) continue;
    field.set(value, *rc::gen::element<Index>(0, 1000, 1000000, Index{1} << 40), vocabulary());
  }
  repair(value.problem);
  RC_ASSERT(broken_rule(value) == "");
}

TEST(Repair, TheSimplestFieldsNeedNone) {
  for (const Operator* op : vocabulary().operators) {
    Case value = simplest_case(*op);
    const Case before = value;
    repair(value.problem);
    for (const Field& field : all_fields()) {
      if (!is_used(field, value)) continue;
      EXPECT_EQ(field.get(value, vocabulary()), field.get(before, vocabulary()))
          << op->name << ' ' << field.name;
    }
    EXPECT_EQ(broken_rule(value), "") << op->name;
  }
}

RC_GTEST_PROP(Repair, KeepsWhatIsAlreadyValid, ()) {
  const Case value = drawn_case();
  Case again = parse_case(to_text(value), vocabulary());
  repair(again.problem);
  RC_ASSERT(again == value);
}

}  // namespace
}  // namespace shardproof
