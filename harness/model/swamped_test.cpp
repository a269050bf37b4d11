#include "harness/model/swamped.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/masks/masks.h"
#include "harness/model/edit.h"
#include "harness/model/element.h"
#include "reference/operators.h"

namespace shardproof {
namespace {

Problem swamped_problem(std::string_view op, DType dtype) {
  Problem p;
  for (const Operator* each : all_operators()) {
    if (each->name == op) p.op = each;
  }
  for (const Mask* mask : all_masks()) {
    if (mask->name == "none") p.mask.mask = mask;
  }
  p.q = p.kv = 8;
  p.dim = p.dim_v = 3;
  p.tokens = 4;
  p.features = 5;
  p.hidden = 6;
  p.outputs = 3;
  p.dtype = dtype;
  p.edit = Edit::kSwamped;
  p.seed = 3;
  return p;
}

std::vector<double> drawn(const Problem& p, std::string_view name) {
  for (const TensorSpec& spec : p.op->tensors(p)) {
    if (spec.name == name) return whole_tensor(p, spec);
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

TEST(Swamped, TwoLargeTermsOfEverySumCancel) {
  for (DType dtype : all_dtypes()) {
    const double large = swamping_factor(dtype);
    const auto w2 = drawn(swamped_problem("mlp", dtype), "w2");      // [6, 3]
    const auto v = drawn(swamped_problem("attention", dtype), "v");  // [1, 8, 1, 3]
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(w2[i], large);
      EXPECT_EQ(w2[15 + i], -large);
      EXPECT_EQ(v[i], large);
      EXPECT_EQ(v[15 + i], -large);
      for (std::size_t row = 1; row < 5; ++row) EXPECT_LE(std::fabs(w2[3 * row + i]), 1);
    }
  }
}

TEST(Swamped, TheHiddenUnitsThatLargeTermsMultiplyAreAlike) {
  const Problem p = swamped_problem("mlp", DType::kBf16);
  const auto w1 = drawn(p, "w1");  // [5, 6]
  const auto b1 = drawn(p, "b1");
  EXPECT_EQ(b1[0], b1[5]);
  bool distinct = false;
  for (std::size_t row = 0; row < 5; ++row) {
    EXPECT_EQ(w1[6 * row], w1[6 * row + 5]);
    distinct = distinct || w1[6 * row] != w1[6 * row + 1];
  }
  EXPECT_TRUE(distinct);
}

TEST(Swamped, NoNarrowerTypeHoldsALargeAndASmallTermTogether) {
  for (DType narrow : {DType::kBf16, DType::kF16, DType::kTf32}) {
    EXPECT_EQ(round_to(narrow, swamping_factor(DType::kF32) + 1), swamping_factor(DType::kF32));
  }
  EXPECT_EQ(round_to(DType::kF32, swamping_factor(DType::kF64) + 1), swamping_factor(DType::kF64));
}

TEST(Swamped, QueriesAreZeroAndUpstreamGradientsAreNot) {
  const Problem p = swamped_problem("attention", DType::kF32);
  for (double value : drawn(p, "q")) EXPECT_EQ(value, 0);
  for (double value : drawn(p, "dout")) EXPECT_EQ(std::fabs(value), 1);
  EXPECT_EQ(broken_edit(p, p.op->tensors(p)), "");
  const Problem loss = swamped_problem("cross_entropy", DType::kF32);
  EXPECT_NE(broken_edit(loss, loss.op->tensors(loss)), "");
}

}  // namespace
}  // namespace shardproof
