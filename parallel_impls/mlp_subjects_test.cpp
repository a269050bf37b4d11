#include "parallel_impls/subject_fixture.h"

namespace shardproof {
namespace {

// value and derivative
std::pair<double, double> plain_activation(Activation activation, double z) {
  const double root = std::sqrt(2 / M_PI);
  switch (activation) {
    case Activation::kRelu:
      return {z > 0 ? z : 0, z > 0 ? 1 : 0};
    case Activation::kGelu: {
      const double phi = 0.5 * std::erfc(-z * std::sqrt(0.5));
      return {z * phi, phi + z * std::exp(-z * z / 2) / std::sqrt(2 * M_PI)};
    }
    case Activation::kGeluTanh: {
      const double t = std::tanh(root * (z + 0.044715 * z * z * z));
      return {z / 2 * (1 + t),
              (1 + t) / 2 + z / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * z * z)};
    }
    case Activation::kSilu: {
      const double s = 1 / (1 + std::exp(-z));
      return {z * s, s + z * s * (1 - s)};
    }
  }
  return {};
}

Tensors expected_mlp(const Problem& p) {
  Tensors t = inputs_of(p);
  for (const char* name : {"x", "w1", "b1", "w2", "b2", "wg", "bg"}) {
    t[std::string("d") + name] = Plain(t[name].shape);
  }
  t["y"] = Plain(t["dy"].shape);
  for (Index i = 0; i < p.tokens; ++i) {
    for (Index o = 0; o < p.outputs; ++o) {
      t["y"].at(i, o) += t["b2"].at(o);
      t["db2"].at(o) += t["dy"].at(i, o);
    }
    for (Index h = 0; h < p.hidden; ++h) {
      double z = t["b1"].at(h);
      double up = p.gated ? t["bg"].at(h) : 1;
      for (Index f = 0; f < p.features; ++f) {
        z += t["x"].at(i, f) * t["w1"].at(f, h);
        if (p.gated) up += t["x"].at(i, f) * t["wg"].at(f, h);
      }
      const auto [value, slope] = plain_activation(p.activation, z);
      double da = 0;
      for (Index o = 0; o < p.outputs; ++o) {
        t["y"].at(i, o) += value * up * t["w2"].at(h, o);
        t["dw2"].at(h, o) += value * up * t["dy"].at(i, o);
        da += t["dy"].at(i, o) * t["w2"].at(h, o);
      }
      const double dz = da * slope * up;
      const double dup = da * value;
      t["db1"].at(h) += dz;
      if (p.gated) t["dbg"].at(h) += dup;
      for (Index f = 0; f < p.features; ++f) {
        t["dw1"].at(f, h) += t["x"].at(i, f) * dz;
        t["dx"].at(i, f) += dz * t["w1"].at(f, h);
        if (!p.gated) continue;
        t["dwg"].at(f, h) += t["x"].at(i, f) * dup;
        t["dx"].at(i, f) += dup * t["wg"].at(f, h);
      }
    }
  }
  return t;
}

Problem small_problem() {
  Problem problem;
  problem.tokens = 9, problem.features = 7, problem.hidden = 11, problem.outputs = 5;
  problem.seed = 5;
  return problem;
}

class MlpSubject : public testing::TestWithParam<std::string_view> {
 protected:
  std::vector<Mesh> meshes() const {
    if (GetParam() == "single_mlp") return {Mesh{}};
    return {Mesh{{{"tp", 1}}}, Mesh{{{"tp", 2}}}, Mesh{{{"tp", 3}}}, Mesh{{{"tp", 16}}}};
  }

  void expect_right_everywhere(const Problem& problem) {
    const Tensors want = expected_mlp(case_for(GetParam(), problem, {}).problem);
    for (const Mesh& mesh : meshes()) expect_computes(case_for(GetParam(), problem, mesh), want);
  }
};

TEST_P(MlpSubject, IsRightForEveryActivationGatedOrNot) {
  for (Activation activation :
       {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh, Activation::kSilu}) {
    for (bool gated : {false, true}) {
      Problem problem = small_problem();
      problem.activation = activation, problem.gated = gated;
      expect_right_everywhere(problem);
      problem.dtype = DType::kF64;
      expect_right_everywhere(problem);
    }
  }
}

TEST_P(MlpSubject, IsRightForEveryDtype) {
  for (DType dtype : all_dtypes()) {
    Problem problem = small_problem();
    problem.dtype = dtype, problem.activation = Activation::kSilu, problem.gated = true;
    expect_right_everywhere(problem);
  }
}

TEST_P(MlpSubject, IsRightForExtentsOfZeroAndOne) {
  for (Index Problem::*extent :
       {&Problem::tokens, &Problem::features, &Problem::hidden, &Problem::outputs}) {
    for (Index value : {0, 1}) {
      Problem problem = small_problem();
      problem.*extent = value;
      expect_right_everywhere(problem);
    }
  }
}

TEST_P(MlpSubject, CostsWhatItStates) {
  for (DType dtype : all_dtypes()) {
    Problem problem = small_problem();
    problem.dtype = dtype;
    for (const Mesh& mesh : meshes()) expect_costs_as_stated(case_for(GetParam(), problem, mesh));
  }
}

TEST_P(MlpSubject, IsRightInEveryArrangementOfMemory) {
  for (Views views : every_views()) {
    for (DType dtype : {DType::kF32, DType::kBf16, DType::kF64}) {
      Problem problem = small_problem();
      problem.dtype = dtype, problem.activation = Activation::kGelu, problem.gated = true;
      const Tensors want = expected_mlp(case_for(GetParam(), problem, {}).problem);
      for (const Mesh& mesh : meshes()) {
        Case value = case_for(GetParam(), problem, mesh);
        value.placement.views = views;
        expect_computes(value, want);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, MlpSubject,
                         testing::Values("single_mlp", "column_row_mlp", "fused_column_row_mlp",
                                         "resharded_column_row_mlp", "recomputing_column_row_mlp"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(FusedColumnRowMlp, GradientsLieWhereTheirUnitsAre) {
  Problem problem = small_problem();
  problem.gated = true;
  const Case value = case_for("fused_column_row_mlp", problem, Mesh{{{"tp", 3}}});
  for (const TensorSpec& spec : value.problem.op->tensors(value.problem)) {
    const Shard shard = subject_named("fused_column_row_mlp").shard(value, spec, 2);
    if (spec.name == "wg") {
      EXPECT_EQ(shard[1].size(), 11u);
    }
    if (spec.name == "dw1" || spec.name == "dwg") {
      EXPECT_EQ(shard[1], (std::vector<Index>{8, 9, 10}));
    }
  }
}

TEST(ReshardedColumnRowMlp, IsRightForEveryPairOfCuts) {
  for (Index stored = 1; stored <= 13; ++stored) {
    for (int ranks : {1, 2, 3, 4, 5, 12}) {
      Problem problem = small_problem();
      problem.gated = stored % 2 == 0;
      Case value = case_for("resharded_column_row_mlp", problem, Mesh{{{"tp", ranks}}});
      value.placement.stored = stored;
      expect_computes(value, expected_mlp(value.problem));
      expect_costs_as_stated(value);
    }
  }
}

TEST(ReshardedColumnRowMlp, MovesNothingThatIsWhereItBelongs) {
  Case value = case_for("resharded_column_row_mlp", small_problem(), Mesh{{{"tp", 3}}});
  for (const auto& [stored, bytes] : {std::pair{0, 0}, {3, 0}, {1, 7 * 13 * 4}}) {
    value.placement.stored = stored;
    const auto sums = traffic_of(run_case(value).ranks[0].traffic);
    EXPECT_EQ(sums.at("forward all_to_all tp"), (std::pair<Index, Index>{1, bytes}));
  }
}

TEST(SubjectsOfPlainPlacements, RefuseViewsAndPieces) {
  Case value = case_for("column_row_mlp", small_problem(), Mesh{{{"tp", 3}}});
  EXPECT_EQ(refusal(subject_named("column_row_mlp"), value), "");
  value.placement.stored = 2;
  EXPECT_EQ(refusal(subject_named("column_row_mlp"), value), "takes weights as the mesh cuts them");
  Subject plain = subject_named("column_row_mlp");
  plain.any_views = false;
  value.placement.stored = 0;
  value.placement.views = Views::kOffset;
  EXPECT_EQ(refusal(subject_named("column_row_mlp"), value), "");
  EXPECT_EQ(refusal(plain, value), "takes dense tensors");
}

TEST(ColumnRowMlp, ReducesExactlyOnceEachWay) {
  for (const char* subject : {"column_row_mlp", "recomputing_column_row_mlp"}) {
    const Case value = case_for(subject, small_problem(), Mesh{{{"tp", 3}}});
    for (const RankFacts& facts : run_case(value).ranks) {
      const auto sums = traffic_of(facts.traffic);
      EXPECT_EQ(sums.size(), 2u);
      EXPECT_EQ(sums.at("forward all_reduce tp"), (std::pair<Index, Index>{1, 9 * 5 * 4}));
      EXPECT_EQ(sums.at("backward all_reduce tp"), (std::pair<Index, Index>{1, 9 * 7 * 4}));
    }
  }
}

}  // namespace
}  // namespace shardproof
