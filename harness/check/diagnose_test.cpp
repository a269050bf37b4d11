#include "harness/check/diagnose.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "harness/check/fake.h"

namespace shardproof {
namespace {

// A right run of the fake subject, whose tensors tests make wrong: out, lse, dq, dk.
class Diagnosis : public testing::Test {
 protected:
  std::vector<double>& got(std::size_t tensor) { return run_.outcome.tensors[tensor].got; }

  bool says(std::string_view part) const {
    for (const std::string& sentence : diagnose(run_)) {
      if (sentence.find(part) != std::string::npos) return true;
    }
    return false;
  }

  std::string all() const { return fmt::format("{}", fmt::join(diagnose(run_), "\n")); }

  Subject subject_ = fake::subject();
  shardproof::Run run_ = fake::right_run(fake::small_case(), subject_);
};

TEST_F(Diagnosis, ARightRunHasNone) { EXPECT_TRUE(diagnose(run_).empty()); }

TEST_F(Diagnosis, SaysWhichTensorsAreWrong) {
  got(3)[0] += 1;
  EXPECT_TRUE(says("wrong: dk (the forward pass is right); right: out, lse, dq")) << all();
  got(1)[0] += 1;
  EXPECT_TRUE(says("wrong: lse, dk (from the forward pass on)")) << all();
}

TEST_F(Diagnosis, NamesAFactor) {
  for (double& value : got(0)) value *= 4;
  EXPECT_TRUE(says("out is 4 times what it should be (the size of cp)")) << all();
  for (double& value : got(0)) value *= -0.25;
  EXPECT_TRUE(says("a lost sign")) << all();
  for (double& value : got(0)) value *= -0.75;
  EXPECT_TRUE(says("one rank of cp is missing")) << all();
}

TEST_F(Diagnosis, NamesNoFactorThatDoesNotExplainEveryElement) {
  for (double& value : got(0)) value *= 4;
  got(0)[5] += 1;
  EXPECT_FALSE(says("times what it should be")) << all();
}

TEST_F(Diagnosis, NamesTheValueThatAllWrongElementsHave) {
  got(2)[3] = got(2)[4] = 0;
  EXPECT_TRUE(says("dq is 0 wherever it is wrong")) << all();
}

TEST_F(Diagnosis, NamesThePlace) {
  // [batch 2, token 8, heads 2, feature 3], tokens over four ranks.
  for (std::size_t i = 0; i < got(0).size(); ++i) {
    if (i / 6 % 8 == 7) got(0)[i] += 1;
  }
  EXPECT_TRUE(says("token the last")) << all();
  EXPECT_TRUE(says("rank the last")) << all();
  EXPECT_FALSE(says("batch")) << all();
}

TEST_F(Diagnosis, SeesAnotherRanksBlock) {
  auto& out = got(0);
  for (std::size_t batch = 0; batch < 2; ++batch) {
    for (std::size_t i = 0; i < 12; ++i) out[batch * 48 + i] = out[batch * 48 + 24 + i];
  }
  EXPECT_TRUE(says("rank 0 holds what rank 2 should hold of out")) << all();
}

TEST_F(Diagnosis, RunsAreAlikeThatAreWrongInTheSameWay) {
  shardproof::Run other = fake::right_run(fake::small_case(), subject_);
  EXPECT_FALSE(is_alike(run_, other)) << "nothing is wrong";
  got(0)[3] += 1;
  EXPECT_FALSE(is_alike(run_, other));
  other.outcome.tensors[0].got[3] += 1;
  EXPECT_TRUE(is_alike(run_, other));
  other.outcome.tensors[3].got[0] += 1;
  EXPECT_FALSE(is_alike(run_, other));
}

TEST_F(Diagnosis, ARightRunIsLikeNoWrongOne) {
  const shardproof::Run right = run_;
  got(0)[3] += 1.2e-5;  // T2 is 1e-5
  EXPECT_FALSE(diagnose(run_).empty());
  EXPECT_FALSE(is_alike(run_, right));
  shardproof::Run nearly = right;
  nearly.outcome.tensors[0].got[3] += 0.9e-5;  // nearer to the wrong value than to the right one
  EXPECT_FALSE(is_alike(run_, nearly));
  EXPECT_FALSE(is_alike(nearly, run_));
}

TEST_F(Diagnosis, AnErrorNearItsBoundIsLikeOneWithinHalfOfIt) {
  shardproof::Run other = run_;
  got(0)[3] += 1.4e-5;
  other.outcome.tensors[0].got[3] += 1.1e-5;
  EXPECT_TRUE(is_alike(run_, other));
  other.outcome.tensors[0].got[3] += 2e-5;  // 1.7e-5 apart, of an error of 3.1e-5
  EXPECT_FALSE(is_alike(run_, other));
  other.outcome.tensors[0].got[3] = -got(0)[3];
  EXPECT_FALSE(is_alike(run_, other));
}

TEST_F(Diagnosis, ALostNumberIsWrongAndLikeNoNumber) {
  const shardproof::Run right = run_;
  got(2)[0] = std::nan("");
  const shardproof::Run other = run_;
  EXPECT_TRUE(says("wrong: dq")) << all();
  EXPECT_FALSE(is_alike(run_, right));
  EXPECT_TRUE(is_alike(run_, other));
}

TEST(Signature, DoesNotHangOnTheShapeOfAWorkTensor) {
  Verdict verdict = Verdict::falsified("changed", "");
  verdict.tensor = "a work tensor [2, 3]";
  EXPECT_EQ(signature("s", "p", verdict), "s / p / falsified / changed / a work tensor");
  verdict.tensor = "dq";
  EXPECT_EQ(signature("s", "p", verdict), "s / p / falsified / changed / dq");
}

TEST_F(Diagnosis, VerdictsAreAlikeThatSayTheSame) {
  const Property property{.name = "a", .claim = ""};
  const Property other_property{.name = "b", .claim = ""};
  const Judgement failure{&property, Verdict::falsified("lost", "3 of 4\nin one case")};
  const auto alike = [&](const Property& asked, std::string_view symptom, std::string message) {
    return is_alike(failure, {&asked, Verdict::falsified(symptom, std::move(message))});
  };
  EXPECT_TRUE(alike(property, "lost", "3 of 4\nin another"));
  EXPECT_FALSE(alike(property, "lost", "2 of 4\nin one case"));
  EXPECT_FALSE(alike(property, "found", "3 of 4\nin one case"));
  EXPECT_FALSE(alike(other_property, "lost", "3 of 4\nin one case"));
}

}  // namespace
}  // namespace shardproof
