// The properties that edit a problem and know what becomes of its results: linear_in_upstream,
// linear_in_values, uniform_attention, nan_reaches_its_readers, second_case,
// gradients_match_differences, conservation; on real subjects whose results are then spoilt.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>

#include "harness/check/judge.h"
#include "harness/devices/devices.h"
#include "harness/masks/masks.h"
#include "harness/worlds/worlds.h"
#include "parallel_impls/subjects.h"
#include "properties/properties.h"
#include "reference/operators.h"

namespace shardproof {
namespace {

const std::string kAttention =
    "attention batch=2 heads=4/2 q=7 kv=9 dim=5/3 mask=causal_bottom_right bias=dense dtype=f64 "
    "data=normal seed=1f | ring_attention world=sim device=cpu mesh=cp:3 layout=zigzag schedule=7";
const std::string kMlp =
    "mlp tokens=5 features=4 hidden=7 outputs=3 activation=silu gated=yes dtype=f64 data=normal "
    "seed=2 | column_row_mlp world=sim device=cpu mesh=tp:2";

class Edited : public testing::Test {
 protected:
  Edited() {
    tables_.operators = all_operators();
    tables_.masks = all_masks();
    tables_.subjects = all_subjects();
    tables_.properties = all_properties();
    tables_.worlds = all_worlds();
    tables_.devices = all_devices();
    world_ = tables_.worlds.front().make(tables_.devices);
  }

  // The runs that the property asks for; false when it does not apply.
  bool prepare(std::string_view property, const std::string& text) {
    property_ = tables_.property(property);
    const Case value = parse_case(text, tables_.vocabulary());
    subject_ = tables_.subject(value.placement.subject);
    runs_.clear();
    runs_.push_back(run(value));
    if (property_->inapplicable && !property_->inapplicable(value, *subject_).empty()) return false;
    if (property_->variants == nullptr) return true;
    for (const Case& variant : property_->variants(value, *subject_)) runs_.push_back(run(variant));
    return runs_.size() > 1;
  }

  Verdict judge() {
    std::vector<const shardproof::Run*> variants;
    for (std::size_t i = 1; i < runs_.size(); ++i) variants.push_back(&runs_[i]);
    return property_->judge({runs_.front(), variants});
  }

  // The verdict after one element of one tensor of one run was changed, which is undone.
  Verdict judge_spoilt(std::size_t run, std::string_view tensor, std::size_t element, double by) {
    for (Gathered& each : runs_[run].outcome.tensors) {
      if (each.spec.name != tensor) continue;
      const double before = each.got[element];
      each.got[element] += by;
      const Verdict verdict = judge();
      each.got[element] = before;
      return verdict;
    }
    ADD_FAILURE() << "no tensor " << tensor;
    return Verdict::holds();
  }

  std::vector<shardproof::Run> runs_;

 private:
  shardproof::Run run(const Case& value) {
    shardproof::Run result;
    result.value = value;
    result.subject = subject_;
    result.contract = subject_->contract(value);
    result.outcome = world_->run(value, *subject_, {});
    auto expected = std::make_shared<Expected>();
    result.expected = [expected, value, contract = result.contract](Effort) -> const Expected& {
      if (expected->tensors.empty()) {
        *expected = value.problem.op->evaluate(value.problem, contract, Effort::kAll);
      }
      return *expected;
    };
    return result;
  }

  Tables tables_;
  std::unique_ptr<World> world_;
  const Property* property_ = nullptr;
  const Subject* subject_ = nullptr;
};

TEST_F(Edited, GradientsAreLinearInTheUpstreamGradients) {
  for (const std::string& text : {kAttention, kMlp}) {
    ASSERT_TRUE(prepare("linear_in_upstream", text));
    EXPECT_EQ(judge().kind, VerdictKind::kHolds);
    for (const Gathered& tensor : runs_[1].outcome.tensors) {
      EXPECT_EQ(judge_spoilt(1, tensor.spec.name, 0, 1e-9).kind, VerdictKind::kFalsified)
          << tensor.spec.name;
    }
  }
}

TEST_F(Edited, OutputsAreLinearInTheValues) {
  for (const std::string& text : {kAttention, kMlp}) {
    ASSERT_TRUE(prepare("linear_in_values", text));
    EXPECT_EQ(judge().kind, VerdictKind::kHolds);
    for (const Gathered& tensor : runs_[1].outcome.tensors) {
      EXPECT_EQ(judge_spoilt(1, tensor.spec.name, 0, 1e-9).kind, VerdictKind::kFalsified)
          << tensor.spec.name;
    }
  }
}

TEST_F(Edited, DoublingSaysNothingAboutDataThatUnderflow) {
  std::string text = kAttention;
  text.replace(text.find("normal"), 6, "tiny");
  EXPECT_FALSE(prepare("linear_in_upstream", text));
  text = kAttention;
  text.replace(text.find("f64"), 3, "f16");
  EXPECT_FALSE(prepare("linear_in_values", text));
}

TEST_F(Edited, UniformAttentionShowsOneKeyTooMany) {
  ASSERT_TRUE(prepare("uniform_attention", kAttention));
  EXPECT_EQ(judge().kind, VerdictKind::kHolds);
  // A query that saw one key more would give each of n keys 1/(n+1) instead of 1/n.
  EXPECT_EQ(judge_spoilt(1, "out", 0, 1e-3).kind, VerdictKind::kFalsified);
  EXPECT_FALSE(prepare("uniform_attention", kMlp));
}

TEST_F(Edited, ANanThatIsLostIsSeen) {
  for (const std::string& text : {kAttention, kMlp}) {
    ASSERT_TRUE(prepare("nan_reaches_its_readers", text));
    EXPECT_EQ(judge().kind, VerdictKind::kHolds);
    std::size_t lost = 0;
    for (Gathered& tensor : runs_[1].outcome.tensors) {
      if (tensor.spec.kind != TensorKind::kOutput) continue;
      for (double& value : tensor.got) {
        if (!std::isnan(value)) continue;
        value = 0;
        ++lost;
        EXPECT_EQ(judge().kind, VerdictKind::kFalsified);
        EXPECT_EQ(judge().symptom, "NaN was lost");
        value = std::nan("");
      }
    }
    EXPECT_GT(lost, 0u);
  }
}

TEST_F(Edited, ASecondCaseIsJudgedByItsOwnReference) {
  for (const std::string& text : {kAttention, kMlp}) {
    ASSERT_TRUE(prepare("second_case", text));
    ASSERT_EQ(runs_.size(), 3u);
    EXPECT_NE(runs_[1].value.problem, runs_[0].value.problem);
    EXPECT_EQ(runs_[2].value, runs_[0].value);
    EXPECT_EQ(judge().kind, VerdictKind::kHolds);
    const std::string_view output = runs_[0].outcome.tensors[0].spec.name;
    EXPECT_EQ(judge_spoilt(1, output, 0, 1e-3).kind, VerdictKind::kFalsified);
    EXPECT_EQ(judge_spoilt(2, output, 0, 1e-12).kind, VerdictKind::kFalsified);
  }
}

TEST_F(Edited, DifferencesOfTheOutputsShowEveryWrongGradient) {
  for (const std::string& text : {kAttention, kMlp}) {
    ASSERT_TRUE(prepare("gradients_match_differences", text));
    EXPECT_EQ(judge().kind, VerdictKind::kHolds) << judge().message;
    for (const Gathered& tensor : runs_[0].outcome.tensors) {
      if (tensor.spec.kind != TensorKind::kGradient) continue;
      EXPECT_EQ(judge_spoilt(0, tensor.spec.name, 0, 1e-3).kind, VerdictKind::kFalsified)
          << tensor.spec.name;
    }
  }
}

// Rows of one value have no variance: the output bends over the root of epsilon.
TEST_F(Edited, DifferencesAreFinerThanWhatAnOutputBendsOver) {
  const std::string flat =
      "norm_mlp tokens=1 features=3 hidden=1 outputs=1 norm=layer epsilon={} dtype=f64 "
      "data=constant_rows seed=0 | single_norm_mlp world=sim device=cpu mesh=1";
  ASSERT_TRUE(prepare("gradients_match_differences", fmt::format(fmt::runtime(flat), 1e-6)));
  EXPECT_EQ(judge().kind, VerdictKind::kHolds) << judge().message;
  EXPECT_EQ(judge_spoilt(0, "dw1", 0, 1e-3).kind, VerdictKind::kFalsified);
  EXPECT_FALSE(prepare("gradients_match_differences", fmt::format(fmt::runtime(flat), 1e-7)));
}

TEST_F(Edited, WhatFlowsInComesOut) {
  const std::map<std::string, std::vector<std::string_view>> conserved{
      {kAttention, {"dv", "dbias"}}, {kMlp, {"db2"}}};
  for (const auto& [text, tensors] : conserved) {
    ASSERT_TRUE(prepare("conservation", text));
    EXPECT_EQ(judge().kind, VerdictKind::kHolds) << judge().message;
    for (std::string_view tensor : tensors) {
      const Verdict verdict = judge_spoilt(0, tensor, 0, 1e-6);
      EXPECT_EQ(verdict.kind, VerdictKind::kFalsified);
      EXPECT_EQ(verdict.tensor, tensor);
    }
  }
}

}  // namespace
}  // namespace shardproof
