#include "parallel_impls/subject_fixture.h"

namespace shardproof {
namespace {

// From the definition, one token at a time, exponentials taken as they are.
Tensors expected_losses(const Problem& p) {
  Tensors t = inputs_of(p);
  t["loss"] = t["lse"] = Plain(t["ids"].shape);
  t["mean"] = Plain(t["dmean"].shape);
  t["dlogits"] = Plain(t["logits"].shape);
  const auto label_of = [&](Index b, Index i) {
    return i + 1 < p.tokens ? t["ids"].at(b, i + 1) : -1.0;
  };
  double count = 0;
  for (Index b = 0; b < p.batch; ++b) {
    for (Index i = 0; i < p.tokens; ++i) count += label_of(b, i) >= 0;
  }
  const double words = static_cast<double>(p.vocab);
  for (Index b = 0; b < p.batch; ++b) {
    for (Index i = 0; i < p.tokens; ++i) {
      double total = 0;
      for (Index j = 0; j < p.vocab; ++j) total += std::exp(t["logits"].at(b, i, j));
      t["lse"].at(b, i) = std::log(total);
      const double label = label_of(b, i);
      if (label < 0) continue;
      const double upstream = t["dloss"].at(b, i) + t["dmean"].at(Index{0}) / count;
      for (Index j = 0; j < p.vocab; ++j) {
        const double log_p = t["logits"].at(b, i, j) - std::log(total);
        const double own = static_cast<double>(j) == label ? 1 - p.smoothing : 0;
        const double target = own + p.smoothing / words;
        t["loss"].at(b, i) -= target * log_p;
        t["dlogits"].at(b, i, j) = upstream * (std::exp(log_p) - target);
      }
      t["mean"].at(Index{0}) += t["loss"].at(b, i) / count;
    }
  }
  return t;
}

Problem small_problem() {
  Problem problem;
  problem.batch = 2, problem.tokens = 9, problem.vocab = 11, problem.padding = 3;
  problem.smoothing = 0.125, problem.ignored = 0.25;
  problem.seed = 5;
  return problem;
}

class CrossEntropySubject : public testing::TestWithParam<std::string_view> {
 protected:
  bool is_single() const { return GetParam() == "single_cross_entropy"; }

  std::vector<Case> placements(const Problem& problem) const {
    if (is_single()) return {case_for(GetParam(), problem, Mesh{})};
    std::vector<Case> cases;
    for (const Mesh& mesh :
         {Mesh{{{"tp", 1}, {"cp", 1}}}, Mesh{{{"tp", 3}, {"cp", 2}}}, Mesh{{{"cp", 3}, {"tp", 2}}},
          Mesh{{{"tp", 16}, {"cp", 1}}}, Mesh{{{"tp", 1}, {"cp", 12}}}}) {
      for (Layout layout : all_layouts()) {
        cases.push_back(case_for(GetParam(), problem, mesh, layout));
      }
    }
    return cases;
  }

  void expect_right_everywhere(const Problem& problem) {
    const std::vector<Case> cases = placements(problem);
    const Tensors want = expected_losses(cases[0].problem);
    for (const Case& value : cases) expect_computes(value, want);
  }
};

TEST_P(CrossEntropySubject, IsRightForEveryDtype) {
  for (DType dtype : all_dtypes()) {
    Problem problem = small_problem();
    problem.dtype = dtype;
    expect_right_everywhere(problem);
  }
}

TEST_P(CrossEntropySubject, IsRightWithAndWithoutSmoothingPaddingAndIgnoredTokens) {
  for (double smoothing : {0.0, 1.0}) {
    for (double ignored : {0.0, 0.75, 1.0}) {
      Problem problem = small_problem();
      problem.smoothing = smoothing, problem.ignored = ignored;
      problem.padding = ignored > 0 ? 5 : 0;
      expect_right_everywhere(problem);
    }
  }
}

TEST_P(CrossEntropySubject, IsRightForExtentsOfZeroAndOne) {
  for (Index Problem::*extent : {&Problem::batch, &Problem::tokens, &Problem::vocab}) {
    for (Index value : {0, 1}) {
      if (value == 0 && extent == &Problem::vocab) continue;
      Problem problem = small_problem();
      problem.*extent = value;
      expect_right_everywhere(problem);
    }
  }
}

TEST_P(CrossEntropySubject, PaddingIsNeverRead) {
  Problem problem = small_problem();
  const Tensors want = expected_losses(placements(problem)[0].problem);
  problem.edit = Edit::kHiddenNan;
  for (const Case& value : placements(problem)) expect_computes(value, want);
}

TEST_P(CrossEntropySubject, CostsWhatItStates) {
  for (DType dtype : all_dtypes()) {
    Problem problem = small_problem();
    problem.dtype = dtype;
    for (const Case& value : placements(problem)) expect_costs_as_stated(value);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CrossEntropySubject,
                         testing::Values("single_cross_entropy",
                                         "vocabulary_parallel_cross_entropy"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(VocabularyParallelCrossEntropy, CommunicatesInTheForwardPassAlone) {
  const Case value = case_for("vocabulary_parallel_cross_entropy", small_problem(),
                              Mesh{{{"tp", 2}, {"cp", 3}}}, Layout::kStriped);
  for (const RankFacts& facts : run_case(value).ranks) {
    const auto sums = traffic_of(facts.traffic);
    EXPECT_EQ(sums.size(), 4u);
    const Index tokens = 2 * 3;
    EXPECT_EQ(sums.at("forward all_gather cp"), (std::pair<Index, Index>{1, tokens * 4}));
    EXPECT_EQ(sums.at("forward all_reduce_maximum tp"), (std::pair<Index, Index>{1, tokens * 4}));
    EXPECT_EQ(sums.at("forward all_reduce tp"), (std::pair<Index, Index>{1, 3 * tokens * 4}));
    EXPECT_EQ(sums.at("forward all_reduce cp"), (std::pair<Index, Index>{1, 2 * 4}));
  }
}

}  // namespace
}  // namespace shardproof
