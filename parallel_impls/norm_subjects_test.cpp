#include "parallel_impls/subject_fixture.h"

namespace shardproof {
namespace {

// One row: the normalised x and the factor.
struct PlainRow {
  std::vector<double> unit;
  double factor = 1;
};

PlainRow plain_row(const Problem& p, Plain& x, Index i) {
  const double count = static_cast<double>(p.features);
  double mean = 0;
  double square_sum = 0;
  for (Index k = 0; k < p.features && p.norm == Norm::kLayer; ++k) mean += x.at(i, k) / count;
  for (Index k = 0; k < p.features; ++k) {
    square_sum += (x.at(i, k) - mean) * (x.at(i, k) - mean);
  }
  PlainRow row{{}, 1 / std::sqrt(square_sum / count + p.epsilon)};
  for (Index k = 0; k < p.features; ++k) row.unit.push_back((x.at(i, k) - mean) * row.factor);
  return row;
}

// The forward pass and the gradients of the layers of one token; returns its dz.
std::vector<double> layers(const Problem& p, Tensors& t, const std::vector<double>& z, Index i) {
  std::vector<double> dz(z.size());
  for (Index j = 0; j < p.hidden; ++j) {
    double h = 0;
    double dh = 0;
    for (Index k = 0; k < p.features; ++k) h += z[static_cast<std::size_t>(k)] * t["w1"].at(k, j);
    for (Index o = 0; o < p.outputs; ++o) {
      t["y"].at(i, o) += h * t["w2"].at(j, o);
      t["dw2"].at(j, o) += h * t["dy"].at(i, o);
      dh += t["dy"].at(i, o) * t["w2"].at(j, o);
    }
    for (Index k = 0; k < p.features; ++k) {
      t["dw1"].at(k, j) += z[static_cast<std::size_t>(k)] * dh;
      dz[static_cast<std::size_t>(k)] += dh * t["w1"].at(k, j);
    }
  }
  return dz;
}

// From the definition, one token at a time.
Tensors expected_norm_mlp(const Problem& p) {
  Tensors t = inputs_of(p);
  for (const auto& name : {"x", "gamma", "beta", "w1", "w2"}) {
    if (t.contains(name)) t["d" + std::string(name)] = Plain(t[name].shape);
  }
  t["y"] = Plain(t["dy"].shape);
  for (Index i = 0; i < p.tokens; ++i) {
    const PlainRow row = plain_row(p, t["x"], i);
    std::vector<double> z;
    for (Index k = 0; k < p.features; ++k) {
      z.push_back(row.unit[static_cast<std::size_t>(k)] * t["gamma"].at(k));
      if (p.norm == Norm::kLayer) z.back() += t["beta"].at(k);
    }
    const std::vector<double> dz = layers(p, t, z, i);
    double mean = 0;
    double product = 0;
    for (Index k = 0; k < p.features; ++k) {
      const auto at = static_cast<std::size_t>(k);
      const double w = dz[at] * t["gamma"].at(k) / static_cast<double>(p.features);
      if (p.norm == Norm::kLayer) mean += w;
      product += w * row.unit[at];
      t["dgamma"].at(k) += dz[at] * row.unit[at];
      if (p.norm == Norm::kLayer) t["dbeta"].at(k) += dz[at];
    }
    for (Index k = 0; k < p.features; ++k) {
      const auto at = static_cast<std::size_t>(k);
      t["dx"].at(i, k) = row.factor * (dz[at] * t["gamma"].at(k) - mean - row.unit[at] * product);
    }
  }
  return t;
}

Problem small_problem(Norm norm = Norm::kLayer) {
  Problem problem;
  problem.tokens = 9, problem.features = 7, problem.hidden = 11, problem.outputs = 5;
  problem.norm = norm, problem.epsilon = 0.01;
  problem.seed = 5;
  return problem;
}

class NormMlpSubject : public testing::TestWithParam<std::string_view> {
 protected:
  std::vector<Mesh> meshes() const {
    if (GetParam() == "single_norm_mlp") return {Mesh{}};
    return {Mesh{{{"tp", 1}}}, Mesh{{{"tp", 2}}}, Mesh{{{"tp", 4}}}, Mesh{{{"tp", 16}}}};
  }

  void expect_right_everywhere(const Problem& problem) {
    const Tensors want = expected_norm_mlp(case_for(GetParam(), problem, {}).problem);
    for (const Mesh& mesh : meshes()) expect_computes(case_for(GetParam(), problem, mesh), want);
  }
};

TEST_P(NormMlpSubject, IsRightForEveryDtypeAndNorm) {
  for (DType dtype : all_dtypes()) {
    for (Norm norm : {Norm::kRms, Norm::kLayer}) {
      Problem problem = small_problem(norm);
      problem.dtype = dtype;
      expect_right_everywhere(problem);
    }
  }
}

TEST_P(NormMlpSubject, IsRightForRowsThatAreConstantOrFarFromZero) {
  for (DataRecipe data : {DataRecipe::kConstantRows, DataRecipe::kCancellation}) {
    Problem problem = small_problem();
    problem.data = data, problem.dtype = DType::kF64;
    expect_right_everywhere(problem);
  }
}

TEST_P(NormMlpSubject, IsRightForExtentsOfZeroAndOne) {
  for (Index Problem::*extent :
       {&Problem::tokens, &Problem::features, &Problem::hidden, &Problem::outputs}) {
    for (Index value : {0, 1}) {
      for (Norm norm : {Norm::kRms, Norm::kLayer}) {
        Problem problem = small_problem(norm);
        problem.*extent = value;
        expect_right_everywhere(problem);
      }
    }
  }
}

TEST_P(NormMlpSubject, CostsWhatItStates) {
  for (DType dtype : all_dtypes()) {
    for (Norm norm : {Norm::kRms, Norm::kLayer}) {
      Problem problem = small_problem(norm);
      problem.dtype = dtype;
      for (const Mesh& mesh : meshes()) expect_costs_as_stated(case_for(GetParam(), problem, mesh));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, NormMlpSubject,
                         testing::Values("single_norm_mlp", "sequence_parallel_norm_mlp"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(SequenceParallelNormMlp, GathersAndScattersOnceEachWay) {
  const Case value = case_for("sequence_parallel_norm_mlp", small_problem(), Mesh{{{"tp", 4}}});
  const Outcome outcome = run_case(value);
  for (std::size_t rank = 0; rank < outcome.ranks.size(); ++rank) {
    const auto sums = traffic_of(outcome.ranks[rank].traffic);
    const Index tokens = rank == 0 ? 3 : 2;
    EXPECT_EQ(sums.size(), 5u);
    EXPECT_EQ(sums.at("forward all_gather tp"), (std::pair<Index, Index>{1, tokens * 7 * 4}));
    EXPECT_EQ(sums.at("forward reduce_scatter tp"), (std::pair<Index, Index>{1, 9 * 5 * 4}));
    EXPECT_EQ(sums.at("backward all_gather tp"), (std::pair<Index, Index>{1, tokens * 5 * 4}));
    EXPECT_EQ(sums.at("backward reduce_scatter tp"), (std::pair<Index, Index>{1, 9 * 7 * 4}));
    EXPECT_EQ(sums.at("backward all_reduce tp"), (std::pair<Index, Index>{1, 2 * 7 * 4}));
  }
}

}  // namespace
}  // namespace shardproof
