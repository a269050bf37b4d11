// The properties that edit the problem: causal_prefix, masked_keys_never_matter,
// tokens_independent. The fake operator's values say exactly which keys they depend on.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/check/fake.h"
#include "properties/properties.h"

namespace shardproof {

const Property& causal_prefix_property();
const Property& masked_keys_never_matter_property();
const Property& tokens_independent_property();

namespace {

class Metamorphic : public testing::Test {
 protected:
  // False when there is no variant.
  bool prepare(const Property& property, const Case& value) {
    base_ = fake::right_run(value, subject_);
    const auto cases = property.variants(value, subject_);
    if (cases.empty()) return false;
    variant_ = fake::right_run(cases.front(), subject_);
    return true;
  }

  Verdict judge(const Property& property) {
    const shardproof::Run* variants[] = {&variant_};
    return property.judge({base_, variants});
  }

  std::vector<double>& moved(std::size_t tensor) { return variant_.outcome.tensors[tensor].got; }

  Subject subject_ = fake::subject();
  shardproof::Run base_;
  shardproof::Run variant_;
};

TEST_F(Metamorphic, CausalPrefixHoldsUnderEveryMask) {
  const Property& property = causal_prefix_property();
  int edited = 0;
  for (const Mask* mask : all_masks()) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Case value = fake::small_case(mask->name, 3, 1);
      value.problem.kv = 11;
      value.problem.seed = seed;
      EXPECT_EQ(property.inapplicable(value, subject_), "");
      if (!prepare(property, value)) continue;
      ++edited;
      EXPECT_EQ(judge(property).kind, VerdictKind::kHolds) << to_text(value);
      EXPECT_NE(base_.outcome.tensors[3].got, moved(3)) << "some key must move";
    }
  }
  EXPECT_GT(edited, 60);
}

TEST_F(Metamorphic, CausalPrefixIsFalsifiedByARowThatSeesTheFuture) {
  const Property& property = causal_prefix_property();
  ASSERT_TRUE(prepare(property, fake::small_case()));
  const Index from = variant_.value.problem.edit_at;
  const TensorSpec& spec = base_.outcome.tensors[0].spec;
  for (std::size_t i = 0; i < moved(0).size(); ++i) {
    const auto before = moved(0)[i];
    moved(0)[i] = std::nextafter(before, 1e9);
    const bool past = spec.shape.coordinates(static_cast<Index>(i))[1] < from;
    EXPECT_EQ(judge(property).kind, past ? VerdictKind::kFalsified : VerdictKind::kHolds) << i;
    moved(0)[i] = before;
  }
}

TEST_F(Metamorphic, CausalPrefixWatchesLseAndGradientsToo) {
  const Property& property = causal_prefix_property();
  // Documents: keys of the first are seen by its own queries alone.
  Case value = fake::small_case("documents", 4);
  bool watched_keys = false;
  for (std::uint64_t seed = 0; seed < 50 && !watched_keys; ++seed) {
    value.problem.seed = seed;
    if (!prepare(property, value)) continue;
    for (std::size_t tensor : {std::size_t{1}, std::size_t{2}}) {
      const double before = moved(tensor)[0];
      moved(tensor)[0] += 1;
      EXPECT_EQ(judge(property).kind, VerdictKind::kFalsified);
      moved(tensor)[0] = before;
    }
    moved(3)[0] += 1;
    watched_keys = judge(property).kind == VerdictKind::kFalsified;
  }
  EXPECT_TRUE(watched_keys);
}

TEST_F(Metamorphic, CausalPrefixHasNoCutWhereEveryQuerySeesTheLastKey) {
  EXPECT_TRUE(causal_prefix_property().variants(fake::small_case("none"), subject_).empty());
  Case empty = fake::small_case();
  empty.problem.q = empty.problem.kv = 0;
  EXPECT_TRUE(causal_prefix_property().variants(empty, subject_).empty());
  Case edited = fake::small_case();
  edited.problem.edit = Edit::kHiddenNan;
  EXPECT_NE(causal_prefix_property().inapplicable(edited, subject_), "");
}

TEST_F(Metamorphic, HiddenKeysMayHoldNan) {
  const Property& property = masked_keys_never_matter_property();
  const Case value = fake::small_case("padding", 5);
  ASSERT_EQ(property.inapplicable(value, subject_), "");
  ASSERT_TRUE(prepare(property, value));
  EXPECT_EQ(variant_.value.problem.edit, Edit::kHiddenNan);
  EXPECT_EQ(judge(property).kind, VerdictKind::kHolds);
  for (std::size_t tensor = 0; tensor < 4; ++tensor) {
    const double before = moved(tensor)[0];
    moved(tensor)[0] = std::nan("");
    EXPECT_EQ(judge(property).kind, VerdictKind::kFalsified);
    moved(tensor)[0] = before;
  }
}

TEST_F(Metamorphic, HiddenKeysHaveZeroGradients) {
  const Property& property = masked_keys_never_matter_property();
  ASSERT_TRUE(prepare(property, fake::small_case("padding", 5)));
  // Key 7 of batch entry 0 is padding, in both runs alike.
  const auto element = static_cast<std::size_t>(7 * base_.value.problem.dim);
  base_.outcome.tensors[3].got[element] = moved(3)[element] = 1e-30;
  EXPECT_EQ(judge(property).symptom, "hidden key has a gradient");
  EXPECT_EQ(judge(property).tensor, "dk");
}

TEST_F(Metamorphic, HiddenKeysMatterOnlyWhereThereAreSomeAndNanIsPromised) {
  const Property& property = masked_keys_never_matter_property();
  EXPECT_NE(property.inapplicable(fake::small_case("causal"), subject_), "");
  subject_.contract = [](const Case&) {
    Contract contract;
    contract.hidden_may_be_nan = false;
    return contract;
  };
  EXPECT_NE(property.inapplicable(fake::small_case("padding", 5), subject_), "");
}

// An operator with tokens that do not interact: out [tokens, 3] doubles x.
std::vector<TensorSpec> doubling_tensors(const Problem& p) {
  return {{"y", TensorKind::kOutput, Role::kActivation, p.dtype, {p.tokens, 3}, 0},
          {"dw", TensorKind::kGradient, Role::kWeight, p.dtype, {3}, -1}};
}

Outcome doubled(const Problem& p) {
  Outcome outcome;
  for (const TensorSpec& spec : doubling_tensors(p)) outcome.tensors.push_back({spec, {}});
  for (Index i = 0; i < 3 * p.tokens; ++i) {
    const bool edited = p.edit == Edit::kFrom && i / 3 >= p.edit_at;
    outcome.tensors[0].got.push_back(static_cast<double>(i) + (edited ? 0.5 : 0));
  }
  outcome.tensors[1].got.assign(3, p.edit == Edit::kFrom ? 1 : 2);
  return outcome;
}

TEST_F(Metamorphic, TokensOfAnMlpDoNotInteract) {
  const Property& property = tokens_independent_property();
  static constexpr std::string_view kKeys[] = {"tokens", "edit"};
  Operator op = fake::op();
  op.keys = kKeys;
  Case value = fake::small_case();
  value.problem.op = &op;
  value.problem.tokens = 6;
  ASSERT_EQ(property.inapplicable(value, subject_), "");
  base_.value = value;
  base_.outcome = doubled(value.problem);
  variant_.value = property.variants(value, subject_).front();
  const Index from = variant_.value.problem.edit_at;
  ASSERT_GT(from, 0);
  ASSERT_LT(from, 6);
  variant_.outcome = doubled(variant_.value.problem);
  EXPECT_EQ(judge(property).kind, VerdictKind::kHolds);
  moved(0)[static_cast<std::size_t>(3 * from)] += 1;
  EXPECT_EQ(judge(property).kind, VerdictKind::kHolds) << "an edited token may move";
  moved(0)[static_cast<std::size_t>(3 * from) - 1] += 1;
  EXPECT_EQ(judge(property).kind, VerdictKind::kFalsified);

  value.problem.tokens = 1;
  EXPECT_NE(property.inapplicable(value, subject_), "");
  EXPECT_NE(property.inapplicable(fake::small_case(), subject_), "") << "attention";
}

}  // namespace
}  // namespace shardproof
