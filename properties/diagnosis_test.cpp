// Diagnoses of real subjects and mutants: the right fault is named, and no other is where nobody
// knows the fault.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/check/diagnose.h"
#include "harness/check/evaluator.h"
#include "harness/devices/devices.h"
#include "harness/masks/masks.h"
#include "harness/worlds/worlds.h"
#include "parallel_impls/subjects.h"
#include "properties/properties.h"
#include "reference/operators.h"

namespace shardproof {
namespace {

struct Known {
  std::string_view mutant;
  std::string_view property;
  std::string_view problem;
  std::string_view mesh;
};

// The values of the case itself are wrong; those of a further run are; only what a property says.
constexpr Known kInValues{
    "mlp_bias_on_every_rank", "matches_reference",
    "mlp tokens=3 features=4 hidden=5 outputs=2 activation=relu dtype=f32 data=normal seed=1",
    "tp:2"};
constexpr Known kInFurtherRun{
    "mlp_dx_averaged", "placement_invariant",
    "mlp tokens=2 features=2 hidden=4 outputs=2 activation=relu dtype=f32 data=normal seed=0",
    "tp:1"};
constexpr Known kInVerdict{
    "mlp_extra_synchronisation", "communication_contract",
    "mlp tokens=1 features=1 hidden=1 outputs=1 activation=relu dtype=f32 data=normal seed=0",
    "tp:2"};
constexpr Known kWithoutValues{
    "ring_sends_before_it_receives", "no_deadlock",
    "attention batch=1 heads=1 q=1 kv=1 dim=1 mask=none dtype=f32 data=normal seed=0", "cp:2"};

class Diagnoses : public testing::Test {
 protected:
  // The diagnosis of the known fault's case, among the subjects of the table.
  std::string diagnosis(const Known& known) {
    CaseEvaluator evaluator(tables_, tables_.properties, nullptr, nullptr);
    evaluator.start({});
    const Item item{.text = fmt::format("{} | {} world=sim device=cpu mesh={} schedule=1",
                                        known.problem, known.mutant, known.mesh),
                    .property = std::string(known.property),
                    .all_numbers = true};
    evaluator.prepare(item);
    const CaseResult result = evaluator.evaluate(item);
    EXPECT_NE(result.first_failure(), nullptr) << item.text;
    std::string text;
    for (const std::string& sentence : result.diagnosis) text += sentence + '\n';
    return text;
  }

  // As if nobody had ever seen the fault: the mutant is called something else and is no mutant.
  void forget(const Known& known) {
    unknown_ = *tables_.subject(known.mutant);
    unknown_.fault = nullptr;
    std::replace(tables_.subjects.begin(), tables_.subjects.end(), tables_.subject(known.mutant),
                 static_cast<const Subject*>(&unknown_));
  }

  Subject unknown_;
  Tables tables_{all_operators(),  all_masks(),  all_subjects(),
                 all_properties(), all_worlds(), all_devices()};
};

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_F(Diagnoses, NameTheFaultOfWrongValues) {
  const std::string text = diagnosis(kInValues);
  EXPECT_TRUE(contains(text, "wrong: y")) << text;
  EXPECT_TRUE(contains(text, "as in mlp_bias_on_every_rank:")) << text;
}

TEST_F(Diagnoses, DescribeTheFurtherRunThatIsWrong) {
  const std::string text = diagnosis(kInFurtherRun);
  EXPECT_TRUE(contains(text, "in mlp tokens=2")) << text;
  EXPECT_TRUE(contains(text, "the forward pass is right")) << text;
  EXPECT_TRUE(contains(text, "dx is 0.5 times what it should be")) << text;
  EXPECT_TRUE(contains(text, "as in mlp_dx_averaged:")) << text;
}

TEST_F(Diagnoses, CompareWhatThePropertySaysWhereValuesAreRight) {
  const std::string text = diagnosis(kInVerdict);
  EXPECT_FALSE(contains(text, "wrong:")) << text;
  EXPECT_TRUE(contains(text, "as in mlp_extra_synchronisation:")) << text;
  EXPECT_TRUE(contains(diagnosis(kWithoutValues), "as in ring_sends_before_it_receives:"));
}

TEST_F(Diagnoses, NameNobodyForAFaultThatNobodyKnows) {
  for (const Known& known : {kInValues, kInFurtherRun, kInVerdict, kWithoutValues}) {
    tables_.subjects = all_subjects();
    const std::string_view kind = tables_.subject(known.mutant)->fault->kind;
    forget(known);
    std::string text = diagnosis(known);
    for (const Subject* subject : tables_.subjects) {
      if (!subject->fault || subject->fault->kind == kind) continue;
      EXPECT_FALSE(contains(text, fmt::format("as in {}:", subject->name))) << text;
    }
  }
}

TEST_F(Diagnoses, FindNothingInAnyRunOfACorrectSubject) {
  const Domain domain = make_domain({}, tables_);
  const Generator generator(domain, 11);
  Judge judge(tables_);
  std::size_t further = 0;
  for (std::uint64_t number = 0; number < 120; ++number) {
    const CaseReport report = judge.judge(generator.draw(number), {});
    if (report.base == nullptr) continue;
    EXPECT_TRUE(diagnose(*report.base).empty()) << to_text(report.value);
    for (const auto& run : report.variants) {
      ++further;
      EXPECT_TRUE(diagnose(*run).empty()) << to_text(run->value);
    }
  }
  EXPECT_GT(further, 500U);
}

}  // namespace
}  // namespace shardproof
