#include "harness/model/edit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/masks/masks.h"
#include "harness/model/element.h"
#include "reference/operators.h"

namespace shardproof {
namespace {

Problem problem_of(std::string_view op) {
  Problem p;
  for (const Operator* each : all_operators()) {
    if (each->name == op) p.op = each;
  }
  for (const Mask* mask : all_masks()) {
    if (mask->name == "none") p.mask.mask = mask;
  }
  p.batch = 2;
  p.heads = p.kv_heads = 2;
  p.q = p.kv = 5;
  p.dim = p.dim_v = 3;
  p.tokens = 5;
  p.features = p.hidden = p.outputs = 3;
  p.seed = 9;
  return p;
}

TensorSpec spec_of(const Problem& p, std::string_view name) {
  for (const TensorSpec& spec : p.op->tensors(p)) {
    if (spec.name == name) return spec;
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

// The values of `name` with an edit.
std::vector<double> edited(Problem p, std::string_view name, Edit edit, Index at = 0) {
  p.edit = edit;
  p.edit_at = at;
  return whole_tensor(p, spec_of(p, name));
}

TEST(Edit, AnOperatorHasTheEditsThatChangeSomethingInIt) {
  const auto has = [](std::string_view op, Edit edit) {
    const Problem p = problem_of(op);
    return has_edit(edit, p.op->tensors(p));
  };
  EXPECT_TRUE(has("attention", Edit::kUniform));
  EXPECT_FALSE(has("mlp", Edit::kUniform));
  EXPECT_TRUE(has("attention", Edit::kHiddenNan));
  EXPECT_FALSE(has("attention_layer", Edit::kHiddenNan));
  for (std::string_view op : {"attention", "attention_layer", "mlp"}) {
    for (Edit edit : {Edit::kNone, Edit::kFrom, Edit::kNanToken, Edit::kUpstreamTwice,
                      Edit::kValuesTwice, Edit::kNudge}) {
      EXPECT_TRUE(has(op, edit)) << op << ' ' << static_cast<int>(edit);
    }
  }
}

TEST(Edit, ABrokenEditNamesTheValueAndTheChoices) {
  Problem p = problem_of("mlp");
  p.edit = Edit::kHiddenNan;
  const std::string said = broken_edit(p, p.op->tensors(p));
  EXPECT_NE(said.find("hidden_nan"), std::string::npos) << said;
  EXPECT_NE(said.find("nan_token:position"), std::string::npos) << said;
  p.edit = Edit::kNanToken;
  p.edit_at = 5;
  EXPECT_NE(broken_edit(p, p.op->tensors(p)).find("0 to 4"), std::string::npos);
  repair_edit(p, p.op->tensors(p));
  EXPECT_EQ(p.edit_at, 4);
  EXPECT_EQ(broken_edit(p, p.op->tensors(p)), "");
}

TEST(Edit, DoublingIsExactAndLeavesTheRestAlone) {
  const Problem p = problem_of("attention");
  for (std::string_view name : {"q", "k", "v", "dout", "dlse"}) {
    const auto before = edited(p, name, Edit::kNone);
    const auto upstream = edited(p, name, Edit::kUpstreamTwice);
    const auto values = edited(p, name, Edit::kValuesTwice);
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(upstream[i], (name[0] == 'd' ? 2 : 1) * before[i]);
      EXPECT_EQ(values[i], (name == "v" || name == "dlse" ? 2 : 1) * before[i]);
    }
  }
}

TEST(Edit, NanTokenIsOneTokenOfTheQueries) {
  const Problem p = problem_of("attention");
  const auto q = edited(p, "q", Edit::kNanToken, 3);
  for (std::size_t i = 0; i < q.size(); ++i) EXPECT_EQ(std::isnan(q[i]), i / 6 % 5 == 3) << i;
  for (double value : edited(p, "k", Edit::kNanToken, 3)) EXPECT_FALSE(std::isnan(value));
  const auto x = edited(problem_of("mlp"), "x", Edit::kNanToken, 3);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(std::isnan(x[i]), i / 3 == 3) << i;
}

TEST(Edit, UniformScoresAreZeroAndValuesOneHot) {
  Problem p = problem_of("attention");
  p.bias = ScoreBias::kDense;
  for (std::string_view name : {"q", "bias"}) {
    for (double value : edited(p, name, Edit::kUniform)) EXPECT_EQ(value, 0);
  }
  const auto v = edited(p, "v", Edit::kUniform);
  for (std::size_t i = 0; i < v.size(); ++i) EXPECT_EQ(v[i], i / 6 % 5 % 3 == i % 3 ? 1 : 0) << i;
}

TEST(Edit, NudgesAreOppositeStepsOfInputsAlone) {
  Problem p = problem_of("mlp");
  p.dtype = DType::kF64;
  for (std::string_view name : {"x", "w1", "b2"}) {
    const auto still = edited(p, name, Edit::kNone);
    const auto up = edited(p, name, Edit::kNudge, 0);
    const auto down = edited(p, name, Edit::kNudge, 1);
    const auto twice = edited(p, name, Edit::kNudge, 2);
    int positive = 0;
    for (std::size_t i = 0; i < still.size(); ++i) {
      positive += up[i] > still[i];
      EXPECT_NE(up[i], still[i]);
      EXPECT_NEAR(up[i] - still[i], still[i] - down[i], 1e-15);
      EXPECT_NEAR(twice[i] - still[i], 2 * (up[i] - still[i]), 1e-15);
    }
    EXPECT_TRUE(name == "b2" || (positive > 0 && positive < static_cast<int>(still.size())));
  }
  EXPECT_EQ(edited(p, "dy", Edit::kNudge, 0), edited(p, "dy", Edit::kNone));
}

}  // namespace
}  // namespace shardproof
