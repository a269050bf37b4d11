// Faults that the bounds of an element permit: sums_lose_nothing, no_known_fault_fits, the ladder
// and the pool, on real subjects and mutants.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/check/judge.h"
#include "harness/check/ladder.h"
#include "harness/check/pool.h"
#include "harness/devices/devices.h"
#include "harness/masks/masks.h"
#include "harness/worlds/worlds.h"
#include "parallel_impls/subjects.h"
#include "properties/properties.h"
#include "reference/operators.h"

namespace shardproof {
namespace {

class FineFaults : public testing::Test {
 protected:
  CaseReport judge(const std::string& text, std::string_view property) {
    const Property* const only[] = {tables_.property(property)};
    return judge_.judge(parse_case(text, tables_.vocabulary()), only);
  }

  std::string verdict(const std::string& text, std::string_view property) {
    const CaseReport report = judge(text, property);
    EXPECT_EQ(report.refusal, "") << text;
    return std::string(name(report.overall));
  }

  static std::string mlp(std::string_view subject, std::string_view dtype, int seed,
                         std::string_view activation = "gelu", int ranks = 3) {
    return fmt::format(
        "mlp tokens=50 features=45 hidden=51 outputs=47 activation={} dtype={} data=normal "
        "seed={:x} "
        "| "
        "{} world=sim device=cpu mesh=tp:{}",
        activation, dtype, seed, subject, ranks);
  }

  static std::string attention(std::string_view subject, std::string_view dtype, int seed,
                               std::string_view layout = "contiguous", int ranks = 2) {
    return fmt::format(
        "attention batch=1 heads=4/2 q=19 kv=18 dim=21/20 mask=none softcap=30 dtype={} "
        "data=normal "
        "seed={:x} | {} world=sim device=cpu mesh=cp:{} layout={}",
        dtype, seed, subject, ranks, layout);
  }

  Tables tables_{all_operators(),  all_masks(),  all_subjects(),
                 all_properties(), all_worlds(), all_devices()};
  Judge judge_{tables_};
};

TEST_F(FineFaults, SumsOfCorrectSubjectsLoseNothing) {
  for (std::string_view dtype : {"f64", "f32", "tf32", "bf16", "f16"}) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      EXPECT_EQ(verdict(mlp("column_row_mlp", dtype, 3, "gelu", ranks), "sums_lose_nothing"),
                "holds");
      for (std::string_view layout : {"contiguous", "zigzag", "striped"}) {
        EXPECT_EQ(
            verdict(attention("ring_attention", dtype, ranks, layout, ranks), "sums_lose_nothing"),
            "holds");
      }
    }
  }
}

TEST_F(FineFaults, OneCaseShowsAReductionOrAnAccumulatorThatIsTooNarrow) {
  for (std::string_view dtype : {"tf32", "bf16", "f16"}) {
    EXPECT_EQ(verdict(mlp("mlp_sum_in_the_tensors_type", dtype, 3), "sums_lose_nothing"),
              "falsified");
    EXPECT_EQ(verdict(attention("ring_accumulator_in_the_tensors_type", dtype, 3, "zigzag"),
                      "sums_lose_nothing"),
              "falsified");
  }
  EXPECT_EQ(verdict(mlp("mlp_sum_in_the_tensors_type", "f32", 3), "sums_lose_nothing"), "holds");
}

TEST_F(FineFaults, WhatTheBoundsPermitTheFilterSees) {
  for (int seed = 1; seed <= 5; ++seed) {
    const auto both = [&](const std::string& text) {
      return verdict(text, "matches_reference") + ", " + verdict(text, "no_known_fault_fits");
    };
    EXPECT_EQ(both(mlp("column_row_mlp", "bf16", seed)), "holds, holds");
    EXPECT_EQ(both(mlp("mlp_derivative_of_the_fast_gelu", "bf16", seed)), "holds, falsified");
    EXPECT_EQ(both(attention("ring_attention", "bf16", seed)), "holds, holds");
    EXPECT_EQ(both(attention("ring_probability_cut_off", "bf16", seed)), "holds, falsified");
    EXPECT_EQ(both(attention("ring_scale_in_the_tensors_type", "bf16", seed)), "holds, falsified");
    EXPECT_EQ(both(attention("ring_softcap_slope_missing", "bf16", seed)), "holds, falsified");
  }
}

TEST_F(FineFaults, RanksThatRoundMoreThanOneAreNoisier) {
  for (std::string_view dtype : {"bf16", "f16"}) {
    const auto on_four = [&](std::string_view subject) {
      return verdict(attention(subject, dtype, 2, "zigzag", 4), "noise_of_one_rank");
    };
    EXPECT_EQ(on_four("ring_attention"), "holds");
    EXPECT_EQ(on_four("ring_gradients_in_the_tensors_type"), "falsified");
    EXPECT_EQ(verdict(mlp("column_row_mlp", dtype, 2), "noise_of_one_rank"), "holds");
  }
  EXPECT_EQ(verdict(mlp("column_row_mlp", "f32", 2), "noise_of_one_rank"), "discarded");
  EXPECT_EQ(verdict(mlp("column_row_mlp", "bf16", 2, "gelu", 1), "noise_of_one_rank"), "discarded");
}

TEST_F(FineFaults, WhatNoFaultConcernsIsDiscarded) {
  EXPECT_EQ(verdict(mlp("column_row_mlp", "bf16", 1, "relu"), "no_known_fault_fits"), "discarded");
}

TEST_F(FineFaults, TheLadderNamesTheTypesThatARunKeepsAndTheNextThatItBreaks) {
  const auto rungs = [&](const std::string& text) {
    return ladder(*judge(text, "matches_reference").base);
  };
  EXPECT_EQ(rungs(mlp("column_row_mlp", "bf16", 1)), "holds as middle=bf16; fails as middle=f32");
  EXPECT_EQ(rungs(mlp("column_row_mlp", "f32", 1)), "");
  const std::string attends = rungs(attention("ring_attention", "bf16", 1));
  EXPECT_NE(attends.find("fails as probability=f32"), std::string::npos) << attends;
  const std::string broken = rungs(attention("ring_lse_in_bf16", "f32", 1));
  EXPECT_NE(broken.find("fails as declared; holds as"), std::string::npos) << broken;
  EXPECT_NE(broken.find("lse=bf16"), std::string::npos) << broken;
}

// dv of many small cases, each within its bounds.
TEST_F(FineFaults, APoolShowsWhatEverySmallCaseHides) {
  const auto pooled = [&](std::string_view subject) {
    Pool pool;
    for (int seed = 1; seed <= 600; ++seed) {
      const CaseReport report = judge(attention(subject, "bf16", seed), "matches_reference");
      EXPECT_EQ(name(report.overall), "holds") << seed;
      pool.add(mean_square_error(*report.base->outcome.find("dv"),
                                 *report.base->expected(Effort::kLikely).find("dv")));
    }
    return pool;
  };
  const Pool right = pooled("ring_attention");
  EXPECT_FALSE(right.exceeds()) << right.rms();
  EXPECT_LT(right.rms(), 1.06);
  const Pool wrong = pooled("ring_probability_cut_off");
  EXPECT_TRUE(wrong.exceeds()) << wrong.rms() << " of " << wrong.limit();
}

}  // namespace
}  // namespace shardproof
