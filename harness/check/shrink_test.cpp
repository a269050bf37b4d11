#include "harness/check/shrink.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "harness/check/generate.h"
#include "harness/check/toy_tables_test.h"
#include "harness/model/operator.h"

namespace shardproof {
namespace {

constexpr int kSeeds = 200;

struct Gate {
  std::map<std::string, int> results;  // problem and placement without their seeds
  std::vector<int> evaluations;
};

// Shrinks the first failing case of 200 campaigns.
Gate gate(const StillFails& fails) {
  const Tables tables = toy_tables();
  const Domain domain = make_domain({.subjects = {"right"}}, tables);
  Gate result;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Generator generator(domain, seed);
    std::uint64_t index = 0;
    while (!fails(generator.draw(index))) ++index;
    const Shrunk shrunk =
        shrink(generator.draw(index), *domain.subjects[0], domain.vocabulary, fails);
    EXPECT_TRUE(shrunk.is_minimal);
    EXPECT_TRUE(fails(shrunk.value));
    ++result.results[to_text(shrunk.value)];
    result.evaluations.push_back(shrunk.evaluations);
  }
  std::sort(result.evaluations.begin(), result.evaluations.end());
  return result;
}

void expect_gate(const StillFails& fails, const std::string& want) {
  const Gate got = gate(fails);
  std::string all;
  for (const auto& [text, count] : got.results) all += fmt::format("{} times {}\n", count, text);
  EXPECT_EQ(got.results.size(), 1U) << all;
  EXPECT_EQ(got.results.begin()->first, want);
  EXPECT_LE(got.evaluations[kSeeds * 95 / 100], 60)
      << "median " << got.evaluations[kSeeds / 2] << ", worst " << got.evaluations.back();
}

TEST(Shrink, FindsTheMinimumOfTwoIndependentConditions) {
  expect_gate(
      [](const Case& c) { return c.problem.q >= 17 && c.problem.dtype == DType::kBf16; },
      "toy heads=1 q=17 kv=1 dim=1 mask=none dtype=bf16 data=normal seed=0 | right world=sim "
      "device=cpu mesh=tp:1,cp:1");
}

TEST(Shrink, FindsTheMinimumAcrossADivisibilityRule) {
  expect_gate(
      [](const Case& c) {
        return c.problem.kv_heads >= 2 && c.problem.heads / c.problem.kv_heads >= 3;
      },
      "toy heads=6/2 q=1 kv=1 dim=1 mask=none dtype=f32 data=normal seed=0 | right world=sim "
      "device=cpu mesh=tp:1,cp:1");
}

TEST(Shrink, FindsTheMinimumOfAProduct) {
  expect_gate(
      [](const Case& c) { return c.problem.q * c.problem.kv >= 120; },
      "toy heads=1 q=10 kv=12 dim=1 mask=none dtype=f32 data=normal seed=0 | right world=sim "
      "device=cpu mesh=tp:1,cp:1");
}

TEST(Shrink, FindsTheMinimumOfASum) {
  expect_gate(
      [](const Case& c) { return c.problem.q + c.problem.kv >= 40; },
      "toy heads=1 q=1 kv=39 dim=1 mask=none dtype=f32 data=normal seed=0 | right world=sim "
      "device=cpu mesh=tp:1,cp:1");
}

TEST(Shrink, FindsTheMinimumOfADifferenceBetweenFields) {
  expect_gate(
      [](const Case& c) {
        return c.problem.q >= c.problem.kv + 3 && c.problem.mask.mask->name == "causal";
      },
      "toy heads=1 q=4 kv=1 dim=1 mask=causal dtype=f32 data=normal seed=0 | right world=sim "
      "device=cpu mesh=tp:1,cp:1");
}

TEST(Shrink, FindsTheMinimumOfALengthThatDependsOnTheMesh) {
  expect_gate(
      [](const Case& c) {
        const Index ranks = c.placement.mesh.size("cp");
        return ranks >= 3 && c.problem.q >= 2 * ranks + 1 && c.placement.layout == Layout::kZigzag;
      },
      "toy heads=1 q=7 kv=1 dim=1 mask=none dtype=f32 data=normal seed=0 | right world=sim "
      "device=cpu mesh=tp:1,cp:3 layout=zigzag");
}

TEST(Shrink, MeetsWhereALayoutOrRanksWouldDo) {
  expect_gate(
      [](const Case& c) {
        const bool cut = c.placement.mesh.size("cp") >= 2 || c.placement.layout == Layout::kZigzag;
        return c.problem.kv >= 2 && cut;
      },
      "toy heads=1 q=1 kv=2 dim=1 mask=none dtype=f32 data=normal seed=0 | right world=sim "
      "device=cpu mesh=tp:1,cp:1 layout=zigzag");
}

TEST(Shrink, MeetsWhereLuckOrAChoiceWouldDo) {
  expect_gate(
      [](const Case& c) { return c.problem.seed % 4 == 3 || c.problem.dtype == DType::kF64; },
      "toy heads=1 q=1 kv=1 dim=1 mask=none dtype=f64 data=normal seed=0 | right world=sim "
      "device=cpu mesh=tp:1,cp:1");
}

TEST(Shrink, KeepsASeedThatTheFailureNeeds) {
  const Tables tables = toy_tables();
  const Domain domain = make_domain({.subjects = {"right"}}, tables);
  const Case start = Generator(domain, 1).draw(0);
  const auto fails = [&](const Case& c) { return c.problem.seed == start.problem.seed; };
  const Shrunk shrunk = shrink(start, *domain.subjects[0], domain.vocabulary, fails);
  EXPECT_EQ(shrunk.value.problem.seed, start.problem.seed);
  EXPECT_EQ(shrunk.value.placement.schedule, 0U);
}

TEST(Shrink, ResultIsALocalMinimumInEveryField) {
  const Tables tables = toy_tables();
  const Domain domain = make_domain({.subjects = {"right"}}, tables);
  const auto fails = [](const Case& c) {
    return c.problem.q % 5 == 3 && c.problem.kv % 3 == 2 && c.problem.dim > 3;
  };
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Generator generator(domain, seed);
    std::uint64_t index = 0;
    while (!fails(generator.draw(index))) ++index;
    const Subject& subject = *domain.subjects[0];
    const Case least = shrink(generator.draw(index), subject, domain.vocabulary, fails).value;
    for (const Field& field : all_fields()) {
      const Index at = field.get(least, domain.vocabulary);
      if (!is_used(field, least) || at == field.simplest) continue;
      for (Index to : {field.simplest, at + (at > field.simplest ? -1 : 1)}) {
        Case smaller = least;
        field.set(smaller, to, domain.vocabulary);
        settle(smaller, subject);
        EXPECT_FALSE(smaller != least && fails(smaller)) << field.name << " of " << to_text(least);
      }
    }
  }
}

TEST(Shrink, StopsWhenItsEvaluationsRunOut) {
  const Tables tables = toy_tables();
  const Domain domain = make_domain({.subjects = {"right"}}, tables);
  int calls = 0;
  const auto fails = [&](const Case& c) {
    ++calls;
    return c.problem.q >= 9;
  };
  const Generator generator(domain, 3);
  std::uint64_t index = 0;
  while (generator.draw(index).problem.q < 20) ++index;
  const Shrunk shrunk =
      shrink(generator.draw(index), *domain.subjects[0], domain.vocabulary, fails, 3);
  EXPECT_EQ(calls, 3);
  EXPECT_FALSE(shrunk.is_minimal);
}

}  // namespace
}  // namespace shardproof
