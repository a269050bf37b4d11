#include "harness/check/generate.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "harness/check/toy_tables_test.h"
#include "harness/devices/devices.h"
#include "harness/masks/masks.h"
#include "harness/model/operator.h"
#include "harness/model/require.h"
#include "harness/worlds/worlds.h"
#include "parallel_impls/subjects.h"
#include "properties/properties.h"
#include "reference/operators.h"

namespace shardproof {
namespace {

Tables real_tables() {
  return {all_operators(),  all_masks(),  all_subjects(),
          all_properties(), all_worlds(), all_devices()};
}

// The text of the Error that `restrictions` cause.
std::string error_of(const Restrictions& restrictions) {
  try {
    make_domain(restrictions, toy_tables());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Generate, ACaseIsAFunctionOfSeedAndIndex) {
  const Tables tables = toy_tables();
  const Domain domain = make_domain({}, tables);
  const Generator one(domain, 7);
  const Generator other(domain, 7);
  const Generator different(domain, 8);
  std::set<std::string> texts;
  for (std::uint64_t i = 0; i < 500; ++i) {
    const Case value = one.draw(i);
    EXPECT_EQ(value, other.draw(i));
    EXPECT_NE(value, different.draw(i));
    texts.insert(to_text(value));
  }
  EXPECT_EQ(texts.size(), 500U);
}

TEST(Generate, EveryCaseIsValidAndItsTextReadsBack) {
  const Tables tables = real_tables();
  for (const char* size : {"small", "medium"}) {
    const Domain domain = make_domain({.size = size}, tables);
    const Generator generator(domain, 1);
    for (std::uint64_t i = 0; i < 3000; ++i) {
      const Case value = generator.draw(i);
      ASSERT_EQ(broken_rule(value), "") << to_text(value);
      ASSERT_EQ(parse_case(to_text(value), domain.vocabulary), value);
      ASSERT_LE(value.placement.mesh.ranks(), 16) << to_text(value);
    }
  }
}

TEST(Generate, FewCasesOfCorrectSubjectsAreRefused) {
  const Tables tables = real_tables();
  const Domain domain = make_domain({}, tables);
  const Generator generator(domain, 2);
  int refused = 0;
  constexpr int kCases = 3000;
  for (int i = 0; i < kCases; ++i) {
    const Case value = generator.draw(static_cast<std::uint64_t>(i));
    refused += !refusal(*tables.subject(value.placement.subject), value).empty();
  }
  EXPECT_LT(refused, kCases / 50);
}

TEST(Generate, InterestingLengthsAppear) {
  const Domain domain = make_domain({}, toy_tables());
  const Generator generator(domain, 3);
  std::set<Index> lengths;
  Index total = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const Index length = generator.draw(i).problem.q;
    lengths.insert(length);
    total += length;
  }
  for (Index length : {0, 1, 2, 7, 8, 9, 15, 16, 17, 23, 31, 33, 63, 64}) {
    EXPECT_TRUE(lengths.contains(length)) << length;
  }
  EXPECT_LT(total / 4000, 32);
}

// One extent at a time goes far beyond the others, so that thresholds inside kernels are passed.
TEST(Generate, NowAndThenOneExtentIsLong) {
  const Tables tables = real_tables();
  const Domain domain = make_domain({}, tables);
  const Generator generator(domain, 8);
  std::map<std::string_view, Index> longest;
  double most_of_long = 0;
  double most_of_others = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const Case value = generator.draw(i);
    bool is_long = false;
    ASSERT_EQ(broken_rule(value), "") << to_text(value);
    for (const FieldDomain& each : domain.fields) {
      if (each.field->longest == 0 || !is_used(*each.field, value)) continue;
      const Index extent = each.field->get(value, domain.vocabulary);
      is_long = is_long || extent > each.maximum;
      longest[each.field->name] = std::max(longest[each.field->name], extent);
    }
    double& most_work = is_long ? most_of_long : most_of_others;
    most_work = std::max(most_work, value.problem.op->work(value.problem));
  }
  for (const FieldDomain& each : domain.fields) {
    if (each.field->longest == 0) continue;
    EXPECT_GE(longest[each.field->name], each.field->longest / 4) << each.field->name;
  }
  EXPECT_GT(most_of_long, 0);
  EXPECT_LE(most_of_long, most_of_others);  // they cost what others cost
}

TEST(Generate, ExtentsAreMostlyDistinct) {
  const Domain domain = make_domain({}, toy_tables());
  const Generator generator(domain, 4);
  int equal = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const Problem problem = generator.draw(i).problem;
    equal += problem.q > 1 && problem.q == problem.kv;
  }
  EXPECT_GT(equal, 0);
  EXPECT_LT(equal, 60);
}

TEST(Generate, SwarmsSwitchChoicesOffForAStretch) {
  const Domain domain = make_domain({}, toy_tables());
  const Generator generator(domain, 5);
  bool some_off = false;
  bool all_on = false;
  std::set<DataRecipe> seen;
  for (std::uint64_t stretch = 0; stretch < 40; ++stretch) {
    std::set<DataRecipe> recipes;
    for (std::uint64_t i = 0; i < 64; ++i) {
      recipes.insert(generator.draw(stretch * 64 + i).problem.data);
    }
    some_off |= recipes.size() <= 6;
    all_on |= recipes.size() >= 9;
    seen.merge(recipes);
  }
  EXPECT_TRUE(some_off);
  EXPECT_TRUE(all_on);
  EXPECT_EQ(seen.size(), names_of_recipe().size());
}

TEST(Generate, KeepsEveryRestriction) {
  const Tables tables = toy_tables();
  const Domain domain = make_domain({.subjects = {"right"},
                                     .masks = {"causal", "window"},
                                     .dtypes = {"bf16"},
                                     .data = {"peaked"},
                                     .layouts = {"zigzag"},
                                     .mesh = "tp=2..3,cp=4"},
                                    tables);
  const Generator generator(domain, 6);
  std::set<std::string_view> masks;
  std::set<int> sizes;
  for (std::uint64_t i = 0; i < 500; ++i) {
    const Case value = generator.draw(i);
    ASSERT_TRUE(domain.contains(value));
    EXPECT_EQ(value.placement.subject, "right");
    EXPECT_EQ(value.problem.dtype, DType::kBf16);
    EXPECT_EQ(value.problem.data, DataRecipe::kPeaked);
    EXPECT_EQ(value.placement.layout, Layout::kZigzag);
    EXPECT_EQ(value.placement.mesh.size("cp"), 4);
    sizes.insert(value.placement.mesh.size("tp"));
    masks.insert(value.problem.mask.mask->name);
  }
  EXPECT_EQ(masks, (std::set<std::string_view>{"causal", "window"}));
  EXPECT_EQ(sizes, (std::set<int>{2, 3}));
}

TEST(Generate, KeepsRestrictionsOfRealSubjects) {
  const Tables tables = real_tables();
  const Domain domain = make_domain({.dtypes = {"f16"}, .mesh = "tp=1..2,cp=1..3"}, tables);
  const Generator generator(domain, 6);
  int outside = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) outside += !domain.contains(generator.draw(i));
  EXPECT_EQ(outside, 0);
}

TEST(Generate, OnlySubjectsThatTakeThemGetViewsAndPieces) {
  const Tables tables = real_tables();
  const Domain all = make_domain({}, tables);
  const Domain packed = make_domain({.views = {"packed"}}, tables);
  EXPECT_LT(packed.subjects.size(), all.subjects.size());
  EXPECT_EQ(make_domain({.views = {"dense"}}, tables).subjects.size(), all.subjects.size());
  const Generator generator(all, 8);
  const Generator restricted(packed, 8);
  std::set<Views> seen;
  std::set<Index> pieces;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const Case value = generator.draw(i);
    ASSERT_EQ(refusal(*tables.subject(value.placement.subject), value), "") << to_text(value);
    seen.insert(value.placement.views);
    pieces.insert(value.placement.stored);
    EXPECT_EQ(restricted.draw(i).placement.views, Views::kPacked);
  }
  EXPECT_EQ(seen.size(), names_of_views().size());
  EXPECT_GT(pieces.size(), 10u);
}

TEST(Generate, ManyRanksWhenAsked) {
  const Domain domain = make_domain({.mesh = "cp=1..1024"}, toy_tables());
  const Generator generator(domain, 7);
  int most = 0;
  for (std::uint64_t i = 0; i < 500; ++i)
    most = std::max(most, generator.draw(i).placement.mesh.ranks());
  EXPECT_GT(most, 500);
  EXPECT_LE(most, 1024);
}

TEST(Domain, UnknownNamesAreErrorsThatListTheChoices) {
  EXPECT_EQ(error_of({.operators = {"tyo"}}), "--operator: 'tyo' is unknown; choices: toy");
  EXPECT_EQ(error_of({.layouts = {"round"}}),
            "--layout: 'round' is unknown; choices: contiguous, zigzag, striped");
  EXPECT_NE(error_of({.views = {"odd"}}).find("packed"), std::string::npos);
  EXPECT_NE(error_of({.views = {"packed"}}).find("none of the subjects"), std::string::npos);
  EXPECT_EQ(error_of({.size = "big"}), "--size: 'big' is unknown; choices: small, medium");
  EXPECT_EQ(error_of({.world = "moon"}), "--world: 'moon' is unknown; choices: sim");
  EXPECT_NE(error_of({.subjects = {"rihgt"}}).find("choices: right, wrong"), std::string::npos);
  EXPECT_NE(error_of({.masks = {"casual"}}).find("causal"), std::string::npos);
  EXPECT_NE(error_of({.dtypes = {"fp32"}}).find("bf16"), std::string::npos);
  EXPECT_NE(error_of({.data = {"odd"}}).find("peaked"), std::string::npos);
  EXPECT_NE(error_of({.properties = {"none"}}).find("believer"), std::string::npos);
}

TEST(Domain, BadMeshesAreErrors) {
  EXPECT_NE(error_of({.mesh = "xp=2"}).find("'xp=2'"), std::string::npos);
  EXPECT_NE(error_of({.mesh = "dp=2"}).find("can be cut so"), std::string::npos);
  EXPECT_NE(error_of({.mesh = "tp=0"}).find("from 1 to"), std::string::npos);
  EXPECT_NE(error_of({.mesh = "tp=5..2"}).find("ends before it begins"), std::string::npos);
  EXPECT_NE(error_of({.mesh = "tp=128,cp=128"}).find("more than"), std::string::npos);
  EXPECT_EQ(error_of({.mesh = "tp=3..5"}), "");
}

TEST(Domain, RestrictionsThatNothingMeetsAreErrors) {
  const Tables tables = real_tables();
  const auto fails = [&](const Restrictions& restrictions) {
    EXPECT_THROW(make_domain(restrictions, tables), Error);
  };
  fails({.subjects = {"column_row_mlp"}, .operators = {"attention"}});
  fails({.operators = {"mlp"}, .masks = {"causal"}});
  fails({.operators = {"mlp"}, .layouts = {"zigzag"}});
  fails({.subjects = {"single_mlp"}, .mesh = "tp=2"});
}

TEST(Domain, MutantsAreDrawnOnlyWhenNamed) {
  const Domain domain = make_domain({}, real_tables());
  for (const Subject* subject : domain.subjects) EXPECT_EQ(subject->fault, nullptr);
}

TEST(Generate, CampaignSeedsAreNumbersOrHashedText) {
  EXPECT_EQ(campaign_seed("42"), 42U);
  EXPECT_NE(campaign_seed("1f3a9c"), campaign_seed("1f3a9d"));
  EXPECT_NE(campaign_seed("1f3a9c"), 1U);
}

}  // namespace
}  // namespace shardproof
