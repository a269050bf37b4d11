#include "harness/check/explain.h"

#include <gtest/gtest.h>

#include "harness/check/generate.h"
#include "harness/check/toy_tables_test.h"

namespace shardproof {
namespace {

// The explanation of the minimum of a predicate.
std::string explained(const StillFails& fails) {
  const Tables tables = toy_tables();
  const Domain domain = make_domain({.subjects = {"right"}}, tables);
  const Generator generator(domain, 1);
  std::uint64_t index = 0;
  while (!fails(generator.draw(index))) ++index;
  const Subject& subject = *domain.subjects[0];
  const Case least = shrink(generator.draw(index), subject, domain.vocabulary, fails).value;
  return explain(least, subject, domain.vocabulary, fails);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Explain, NamesTheLeastSizeThatTheFailureNeeds) {
  const std::string text = explained([](const Case& c) { return c.problem.q >= 17; });
  EXPECT_TRUE(contains(text, "needs q >= 17;")) << text;
  EXPECT_TRUE(contains(text, "any ")) << text;
  EXPECT_FALSE(contains(text, "but not")) << text;
}

TEST(Explain, NamesTheOnlyValueThatFails) {
  const std::string text =
      explained([](const Case& c) { return c.problem.dtype == DType::kBf16 && c.problem.kv == 5; });
  EXPECT_TRUE(contains(text, "kv=5")) << text;
  EXPECT_TRUE(contains(text, "dtype=bf16")) << text;
}

TEST(Explain, NamesValuesThatDoNotFail) {
  const std::string text =
      explained([](const Case& c) { return c.problem.mask.mask->name != "causal"; });
  EXPECT_TRUE(contains(text, "but not causal")) << text;
}

}  // namespace
}  // namespace shardproof
