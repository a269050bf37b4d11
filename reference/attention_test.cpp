#include "reference/attention.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "harness/masks/masks.h"
#include "harness/model/case.h"
#include "reference/attention_random.h"

namespace shardproof {
namespace {

Problem small_problem() {
  Problem p;
  p.op = &attention_operator();
  p.mask.mask = all_masks()[0];
  p.batch = 2;
  p.heads = 6;
  p.kv_heads = 3;
  p.q = 5;
  p.kv = 7;
  p.dim = 4;
  p.dim_v = 3;
  return p;
}

std::string names(const Problem& p) {
  std::string result;
  for (const TensorSpec& spec : p.op->tensors(p)) result += std::string(spec.name) + " ";
  return result;
}

TEST(AttentionOperator, DeclaresInputsUpstreamOutputsAndGradientsInThisOrder) {
  Problem p = small_problem();
  EXPECT_EQ(names(p), "q k v dout dlse out lse dq dk dv ");
  p.bias = ScoreBias::kDense;
  EXPECT_EQ(names(p), "q k v bias dout dlse out lse dq dk dv dbias ");
  p.sink = true;
  EXPECT_EQ(names(p), "q k v bias sink dout dlse out lse dq dk dv dbias dsink ");
  p.dtype = DType::kBf16;
  for (const TensorSpec& spec : p.op->tensors(p)) {
    const bool statistic = spec.name == "lse" || spec.name == "dlse";
    EXPECT_EQ(spec.dtype, statistic ? DType::kF32 : DType::kBf16) << spec.name;
    const bool sink = spec.name == "sink" || spec.name == "dsink";
    EXPECT_EQ(spec.token_dimension, sink ? -1 : statistic ? 2 : 1) << spec.name;
    // Gradients look like what they belong to.
    for (const TensorSpec& other : p.op->tensors(p)) {
      if (std::string(spec.name) == "d" + std::string(other.name)) {
        EXPECT_EQ(spec.shape, other.shape);
      }
    }
  }
}

TEST(AttentionOperator, ExpectedTensorsAreTheOutputsAndGradients) {
  for (DType dtype : all_dtypes()) {
    Problem p = small_problem();
    p.dtype = dtype;
    p.bias = ScoreBias::kDense;
    p.sink = true;
    Draw draw(3);
    const Expected expected = p.op->evaluate(p, random_contract(draw, p), Effort::kAll);
    std::string found;
    for (const ExpectedTensor& tensor : expected.tensors) {
      found += std::string(tensor.spec.name) + " ";
      const auto size = static_cast<std::size_t>(tensor.spec.shape.elements());
      EXPECT_EQ(tensor.want.size(), size);
      EXPECT_EQ(tensor.worst.size(), size);
      EXPECT_EQ(tensor.sigma.size(), size);
    }
    EXPECT_EQ(found, "out lse dq dk dv dbias dsink ");
  }
}

TEST(AttentionOperator, RepairMakesAnythingValidAndChangesNothingValid) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Draw draw(seed);
    Problem p = small_problem();
    for (Index* field : {&p.batch, &p.heads, &p.kv_heads, &p.q, &p.kv, &p.dim, &p.dim_v}) {
      *field = draw.between(-2, 12);
    }
    p.mask = {draw.from(all_masks()), draw.between(-5, 200), draw.between(-5, 20)};
    p.scale = static_cast<double>(draw.between(-2, 2));
    p.softcap = static_cast<double>(draw.between(-2, 30));
    p.dropout = static_cast<double>(draw.between(-2, 3)) / 2;
    p.op->repair(p);
    EXPECT_EQ(p.op->broken_rule(p), "") << to_text(p);
    EXPECT_EQ(p.heads % p.kv_heads, 0);
    const Problem once = p;
    p.op->repair(p);
    EXPECT_EQ(p, once);
  }
}

TEST(AttentionOperator, RepairTakesTheLargestDivisorAndKeepsTheSeed) {
  Problem p = small_problem();
  p.heads = 12;
  p.kv_heads = 5;
  p.seed = 77;
  p.op->repair(p);
  EXPECT_EQ(p.kv_heads, 4);
  EXPECT_EQ(p.seed, 77u);
}

TEST(AttentionOperator, SaysWhichRuleIsBrokenAndWhatIsAllowed) {
  Problem p = small_problem();
  EXPECT_EQ(p.op->broken_rule(p), "");
  p.kv_heads = 4;
  EXPECT_EQ(p.op->broken_rule(p), "heads=6/4: the key/value heads must divide the query heads");
  p.kv_heads = 3;
  p.dim = 0;
  EXPECT_EQ(p.op->broken_rule(p), "dim=0 must be at least 1");
  p.dim = 4;
  for (const Mask* mask : all_masks()) {
    if (mask->name == "window") p.mask = {mask, 99, 0};
  }
  EXPECT_EQ(p.op->broken_rule(p), "mask=window:99,0: left=99 must lie in 0..7");
  p.mask.a = 7;
  p.scale = -1;
  EXPECT_EQ(p.op->broken_rule(p), "scale=-1 must be positive, or 0 for 1/sqrt(dim)");
}

TEST(AttentionOperator, RmsTestNeedsManyGenericElements) {
  Problem p = small_problem();
  p.batch = 1;
  p.heads = p.kv_heads = 1;
  p.q = p.kv = 40;
  p.dim = p.dim_v = 32;
  const auto applies = [](const Problem& problem, const char* tensor) {
    return problem.op->evaluate(problem, {}, Effort::kAll).find(tensor)->rms_applies;
  };
  EXPECT_TRUE(applies(p, "out"));
  EXPECT_FALSE(applies(p, "lse"));
  p.data = DataRecipe::kCancellation;
  EXPECT_FALSE(applies(p, "out"));
  p.data = DataRecipe::kNormal;
  p.q = 31;
  EXPECT_FALSE(applies(p, "out"));
  EXPECT_TRUE(applies(p, "dk"));
}

TEST(AttentionOperator, WorkCountsSevenProducts) {
  Problem p = small_problem();
  p.dim_v = p.dim;
  EXPECT_EQ(p.op->work(p), 7.0 * 2 * 6 * 5 * 7 * 4);
}

}  // namespace
}  // namespace shardproof
