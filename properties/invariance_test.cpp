// The properties that compare runs of one problem: schedule_invariant, repeatable,
// placement_invariant, world_invariant.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/check/fake.h"
#include "properties/properties.h"

namespace shardproof {

const Property& schedule_invariant_property();
const Property& repeatable_property();
const Property& placement_invariant_property();
const Property& world_invariant_property();

namespace {

class Invariance : public testing::Test {
 protected:
  // The right runs of every variant of `value`.
  void run_variants(const Property& property, const Case& value) {
    base_ = fake::right_run(value, subject_);
    variants_.clear();
    for (const Case& each : property.variants(value, subject_)) {
      variants_.push_back(fake::right_run(each, subject_));
    }
  }

  Verdict judge(const Property& property) {
    std::vector<const shardproof::Run*> pointers;
    for (const shardproof::Run& run : variants_) pointers.push_back(&run);
    return property.judge({base_, pointers});
  }

  Subject subject_ = fake::subject();
  shardproof::Run base_;
  std::vector<shardproof::Run> variants_;
};

TEST_F(Invariance, OtherSchedulesMayNotChangeABit) {
  const Property& property = schedule_invariant_property();
  run_variants(property, fake::small_case());
  ASSERT_EQ(variants_.size(), 1u);
  EXPECT_NE(variants_[0].value.placement.schedule, base_.value.placement.schedule);
  EXPECT_EQ(judge(property).kind, VerdictKind::kHolds);
  double& moved = variants_[0].outcome.tensors[3].got[2];
  moved = std::nextafter(moved, 1e9);
  EXPECT_EQ(judge(property).kind, VerdictKind::kFalsified);
  EXPECT_EQ(judge(property).tensor, "dk");
  EXPECT_EQ(judge(property).symptom, "bits differ");
}

TEST_F(Invariance, OneRankOrNoPromiseIsNoMatterForSchedules) {
  const Property& property = schedule_invariant_property();
  Case value = fake::small_case();
  EXPECT_EQ(property.inapplicable(value, subject_), "");
  value.placement.mesh = {};
  EXPECT_NE(property.inapplicable(value, subject_), "");
  subject_.contract = [](const Case&) {
    Contract contract;
    contract.bitwise_across_schedules = false;
    return contract;
  };
  EXPECT_NE(property.inapplicable(fake::small_case(), subject_), "");
}

TEST_F(Invariance, ARepeatMayNotChangeABit) {
  const Property& property = repeatable_property();
  EXPECT_EQ(property.inapplicable(fake::small_case(), subject_), "");
  run_variants(property, fake::small_case());
  ASSERT_EQ(variants_.size(), 1u);
  EXPECT_EQ(variants_[0].value, base_.value);
  EXPECT_EQ(judge(property).kind, VerdictKind::kHolds);
  variants_[0].outcome.tensors[0].got[0] = std::nan("");
  EXPECT_EQ(judge(property).kind, VerdictKind::kFalsified);
  subject_.contract = [](const Case&) {
    Contract contract;
    contract.bitwise_repeatable = false;
    return contract;
  };
  EXPECT_NE(property.inapplicable(fake::small_case(), subject_), "");
}

TEST_F(Invariance, ProcessesMayNotChangeABitOfWhatSimulatedRanksGive) {
  const Property& property = world_invariant_property();
  Case value = fake::small_case();
  value.placement.world = "sim";
  EXPECT_NE(property.inapplicable(value, subject_), "");
  value.placement.world = "mpi";
  EXPECT_EQ(property.inapplicable(value, subject_), "");
  run_variants(property, value);
  ASSERT_EQ(variants_.size(), 1u);
  EXPECT_EQ(variants_[0].value.placement.world, "sim");
  EXPECT_EQ(judge(property).kind, VerdictKind::kHolds);
  double& moved = variants_[0].outcome.tensors[2].got[7];
  const double right = moved;
  moved = std::nextafter(right, 1e9);
  EXPECT_EQ(judge(property).symptom, "bits differ");
  // Without a promise of bits: both bounds together, and no more.
  base_.contract.bitwise_across_schedules = false;
  moved = right + 1.9e-5;
  EXPECT_EQ(judge(property).kind, VerdictKind::kHolds);
  moved = right + 2.1e-5;
  EXPECT_EQ(judge(property).kind, VerdictKind::kFalsified);
}

TEST_F(Invariance, OtherPlacementsMayDifferByBothBoundsAndNoMore) {
  const Property& property = placement_invariant_property();
  run_variants(property, fake::small_case());
  ASSERT_EQ(variants_.size(), 1u);
  EXPECT_EQ(judge(property).kind, VerdictKind::kHolds);
  for (shardproof::Run& variant : variants_) {
    double& moved = variant.outcome.tensors[2].got[7];
    const double right = moved;
    moved = right + 1.9e-5;
    EXPECT_EQ(judge(property).kind, VerdictKind::kHolds);
    moved = right - 2.1e-5;
    EXPECT_EQ(judge(property).kind, VerdictKind::kFalsified);
    EXPECT_EQ(judge(property).tensor, "dq");
    moved = std::nan("");
    EXPECT_EQ(judge(property).symptom, "not a number");
    moved = right;
  }
}

TEST_F(Invariance, OtherPlacementsAreOneRankOrOtherLayoutsOrMeshes) {
  const Property& property = placement_invariant_property();
  int single = 0;
  int layouts = 0;
  int meshes = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Case value = fake::small_case();
    value.problem.seed = seed;
    const auto cases = property.variants(value, subject_);
    ASSERT_EQ(cases.size(), 1u);
    EXPECT_EQ(cases[0].problem, value.problem);
    const Placement& other = cases[0].placement;
    if (other.mesh.ranks() == 1) {
      ++single;
    } else {
      (other.mesh == value.placement.mesh ? layouts : meshes) += 1;
    }
  }
  EXPECT_GT(single, 5);
  EXPECT_GT(layouts, 5);
  EXPECT_GT(meshes, 5);
}

TEST_F(Invariance, OtherPlacementsThatChangeTheProblemOrAreRefusedAreLeftOut) {
  const Property& property = placement_invariant_property();
  subject_.unsupported = [](const Case& c) {
    return std::string(c.placement.mesh.ranks() == 4 ? "" : "four ranks only");
  };
  subject_.uses_layout = false;
  EXPECT_TRUE(property.variants(fake::small_case(), subject_).empty());
  subject_ = fake::subject();
  subject_.adapt = [](Case& c) { c.problem.parts = c.placement.mesh.ranks(); };
  Case value = fake::small_case();
  value.problem.parts = 4;
  for (const Case& each : property.variants(value, subject_)) {
    EXPECT_EQ(each.problem, value.problem);
    EXPECT_NE(each.placement.layout, value.placement.layout);
  }
  subject_.axes = {};
  EXPECT_NE(property.inapplicable(value, subject_), "");
}

}  // namespace
}  // namespace shardproof
