#include "parallel_impls/subject_fixture.h"

namespace shardproof {
namespace {

// From the definition, one token at a time, for relu.
Tensors expected_step(const Problem& p) {
  Tensors t = inputs_of(p);
  t["y"] = Plain(t["dy"].shape);
  t["dx"] = Plain(t["x"].shape);
  t["dw1"] = Plain(t["w1"].shape);
  t["db2"] = Plain(t["b2"].shape);
  if (!p.tied) t["dw2"] = Plain(t["w2"].shape);
  const auto second = [&](Index h, Index o) -> double {
    return p.tied ? t["w1"].at(o, h) : t["w2"].at(h, o);
  };
  for (Index token = 0; token < p.tokens; ++token) {
    for (Index o = 0; o < p.outputs; ++o) {
      t["y"].at(token, o) += t["b2"].at(o);
      t["db2"].at(o) += t["dy"].at(token, o);
    }
    for (Index h = 0; h < p.hidden; ++h) {
      double z = 0;
      for (Index f = 0; f < p.features; ++f) z += t["x"].at(token, f) * t["w1"].at(f, h);
      if (z <= 0) continue;
      double da = 0;
      for (Index o = 0; o < p.outputs; ++o) {
        const double dy = t["dy"].at(token, o);
        t["y"].at(token, o) += z * second(h, o);
        da += dy * second(h, o);
        (p.tied ? t["dw1"].at(o, h) : t["dw2"].at(h, o)) += z * dy;
      }
      for (Index f = 0; f < p.features; ++f) {
        t["dw1"].at(f, h) += t["x"].at(token, f) * da;
        t["dx"].at(token, f) += t["w1"].at(f, h) * da;
      }
    }
  }
  double squares = 0;
  for (const char* name : {"dw1", "dw2", "db2"}) {
    for (double value : t[name].values) squares += value * value;
  }
  const double norm = std::sqrt(squares);
  t["norm"] = Plain({1}, norm);
  if (p.max_norm == 0 || norm <= p.max_norm) return t;
  for (const char* name : {"dw1", "dw2", "db2"}) {
    for (double& value : t[name].values) value *= p.max_norm / norm;
  }
  return t;
}

Problem small_problem() {
  Problem problem;
  problem.tokens = 11, problem.features = 5, problem.hidden = 7, problem.outputs = 4;
  problem.micro_batches = 2;
  problem.seed = 5;
  return problem;
}

class StepSubject : public testing::TestWithParam<std::string_view> {
 protected:
  std::vector<Case> placements(const Problem& problem) const {
    if (GetParam() == "single_step") return {case_for(GetParam(), problem, Mesh{})};
    std::vector<Case> cases;
    for (const Mesh& mesh :
         {Mesh{{{"tp", 1}, {"dp", 1}}}, Mesh{{{"tp", 3}, {"dp", 2}}}, Mesh{{{"dp", 3}, {"tp", 2}}},
          Mesh{{{"tp", 9}, {"dp", 1}}}, Mesh{{{"tp", 1}, {"dp", 14}}}}) {
      for (Layout layout : all_layouts()) {
        cases.push_back(case_for(GetParam(), problem, mesh, layout));
      }
    }
    return cases;
  }

  void expect_right_everywhere(const Problem& problem) {
    const std::vector<Case> cases = placements(problem);
    const Tensors want = expected_step(cases[0].problem);
    for (const Case& value : cases) expect_computes(value, want);
  }
};

TEST_P(StepSubject, IsRightForEveryDtype) {
  for (DType dtype : all_dtypes()) {
    Problem problem = small_problem();
    problem.dtype = dtype;
    expect_right_everywhere(problem);
  }
}

TEST_P(StepSubject, IsRightForEveryNumberOfMicroBatches) {
  for (Index count : {1, 2, 3, 12}) {
    for (bool tied : {false, true}) {
      Problem problem = small_problem();
      problem.micro_batches = count;
      problem.tied = tied;
      if (tied) problem.outputs = problem.features;
      expect_right_everywhere(problem);
    }
  }
}

TEST_P(StepSubject, ClipsToTheLargestNorm) {
  for (double max_norm : {0.125, 1.0, 1024.0}) {
    Problem problem = small_problem();
    problem.max_norm = max_norm;
    expect_right_everywhere(problem);
  }
}

TEST_P(StepSubject, IsRightForExtentsOfZeroAndOne) {
  for (Index Problem::*extent :
       {&Problem::tokens, &Problem::features, &Problem::hidden, &Problem::outputs}) {
    for (Index value : {0, 1}) {
      Problem problem = small_problem();
      problem.*extent = value;
      problem.max_norm = 1;
      expect_right_everywhere(problem);
    }
  }
}

TEST_P(StepSubject, CostsWhatItStates) {
  for (DType dtype : all_dtypes()) {
    Problem problem = small_problem();
    problem.dtype = dtype;
    for (const Case& value : placements(problem)) expect_costs_as_stated(value);
    problem.tied = true;
    problem.outputs = problem.features;
    for (const Case& value : placements(problem)) expect_costs_as_stated(value);
  }
}

INSTANTIATE_TEST_SUITE_P(All, StepSubject, testing::Values("single_step", "data_parallel_step"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(DataParallelStep, ReducesGradientsOnceWhateverTheMicroBatches) {
  for (Index count : {1, 3}) {
    Problem problem = small_problem();
    problem.micro_batches = count;
    const Case value = case_for("data_parallel_step", problem, Mesh{{{"tp", 7}, {"dp", 11}}});
    for (const RankFacts& facts : run_case(value).ranks) {
      const auto sums = traffic_of(facts.traffic);
      EXPECT_EQ(sums.size(), 3u);
      EXPECT_EQ(sums.at("forward all_reduce tp"), (std::pair<Index, Index>{count, 4 * 4}));
      EXPECT_EQ(sums.at("backward all_reduce dp"), (std::pair<Index, Index>{1, (5 + 4 + 4) * 4}));
      EXPECT_EQ(sums.at("backward all_reduce tp"),
                (std::pair<Index, Index>{count + 1, (5 + 1) * 4}));
    }
  }
}

}  // namespace
}  // namespace shardproof
