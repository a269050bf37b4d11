#include "parallel_impls/plain_attention.h"

namespace shardproof {
namespace {

// y[b, i, h, n] = sum_f x[b, i, f] w[f, h, n] + bias[h, n]
Plain projected(const Problem& p, Plain& x, Plain& w, Plain& bias) {
  Plain y({p.batch, p.q, w.shape[1], w.shape[2]});
  for (Index b = 0; b < p.batch; ++b) {
    for (Index i = 0; i < p.q; ++i) {
      for (Index h = 0; h < w.shape[1]; ++h) {
        for (Index n = 0; n < w.shape[2]; ++n) {
          y.at(b, i, h, n) = bias.at(h, n);
          for (Index f = 0; f < p.features; ++f) {
            y.at(b, i, h, n) += x.at(b, i, f) * w.at(f, h, n);
          }
        }
      }
    }
  }
  return y;
}

// The gradients of projected(), added to dx, dw and dbias.
void projected_backward(const Problem& p, Tensors& t, const std::string& name) {
  Plain& dy = t["d" + name];
  Plain& w = t["w" + name];
  Plain& dw = t["dw" + name] = Plain(w.shape);
  Plain& dbias = t["db" + name] = Plain(t["b" + name].shape);
  for (Index b = 0; b < p.batch; ++b) {
    for (Index i = 0; i < p.q; ++i) {
      for (Index h = 0; h < w.shape[1]; ++h) {
        for (Index n = 0; n < w.shape[2]; ++n) {
          const double g = dy.at(b, i, h, n);
          dbias.at(h, n) += g;
          for (Index f = 0; f < p.features; ++f) {
            dw.at(f, h, n) += t["x"].at(b, i, f) * g;
            t["dx"].at(b, i, f) += g * w.at(f, h, n);
          }
        }
      }
    }
  }
}

Tensors expected_layer(const Problem& p) {
  Tensors t = inputs_of(p);
  for (const char* name : {"q", "k", "v"}) {
    const std::string n = name;
    t[n] = projected(p, t["x"], t["w" + n], t["b" + n]);
  }
  t["dlse"] = Plain({p.batch, p.heads, p.q});
  t["dout"] = Plain({p.batch, p.q, p.heads, p.dim_v});
  t["dwo"] = Plain(t["wo"].shape);
  t["dbo"] = Plain(t["bo"].shape);
  t["y"] = Plain(t["dy"].shape);
  t["dx"] = Plain(t["x"].shape);
  const auto for_each = [&](auto&& visit) {
    for (Index b = 0; b < p.batch; ++b) {
      for (Index i = 0; i < p.q; ++i) {
        for (Index f = 0; f < p.features; ++f) visit(b, i, f);
      }
    }
  };
  const auto for_each_head = [&](auto&& visit) {
    for (Index h = 0; h < p.heads; ++h) {
      for (Index n = 0; n < p.dim_v; ++n) visit(h, n);
    }
  };
  for_each([&](Index b, Index i, Index f) {
    for_each_head([&](Index h, Index n) {
      t["dout"].at(b, i, h, n) += t["dy"].at(b, i, f) * t["wo"].at(h, n, f);
    });
  });
  plain_attention(p, t);
  for_each([&](Index b, Index i, Index f) {
    t["y"].at(b, i, f) += t["bo"].at(f);
    t["dbo"].at(f) += t["dy"].at(b, i, f);
    for_each_head([&](Index h, Index n) {
      t["y"].at(b, i, f) += t["out"].at(b, i, h, n) * t["wo"].at(h, n, f);
      t["dwo"].at(h, n, f) += t["out"].at(b, i, h, n) * t["dy"].at(b, i, f);
    });
  });
  for (const char* name : {"q", "k", "v"}) projected_backward(p, t, name);
  return t;
}

Problem small_problem() {
  Problem problem;
  problem.batch = 2, problem.heads = 6, problem.kv_heads = 2;
  problem.q = problem.kv = 7, problem.dim = 5, problem.dim_v = 3, problem.features = 4;
  problem.mask = {mask_named("causal")};
  problem.seed = 3;
  return problem;
}

class LayerSubject : public testing::TestWithParam<std::string_view> {
 protected:
  std::vector<Mesh> meshes() const {
    if (GetParam() == "single_attention_layer") return {Mesh{}};
    return {Mesh{{{"tp", 1}}}, Mesh{{{"tp", 2}}}, Mesh{{{"tp", 3}}}, Mesh{{{"tp", 4}}},
            Mesh{{{"tp", 9}}}};
  }

  void expect_right_everywhere(const Problem& problem) {
    const Tensors want = expected_layer(case_for(GetParam(), problem, {}).problem);
    for (const Mesh& mesh : meshes()) expect_computes(case_for(GetParam(), problem, mesh), want);
  }
};

TEST_P(LayerSubject, IsRightForEveryHeadRatio) {
  for (auto [heads, kv_heads] : {std::pair{6, 2}, {1, 1}, {4, 4}, {4, 1}, {9, 3}}) {
    Problem problem = small_problem();
    problem.heads = heads, problem.kv_heads = kv_heads;
    expect_right_everywhere(problem);
  }
}

TEST_P(LayerSubject, IsRightForEveryDtype) {
  for (DType dtype : all_dtypes()) {
    Problem problem = small_problem();
    problem.dtype = dtype;
    expect_right_everywhere(problem);
  }
}

TEST_P(LayerSubject, IsRightForMasksAndAlibi) {
  for (const MaskChoice& mask : {MaskChoice{mask_named("none")},
                                 {mask_named("window"), 2, 0},
                                 {mask_named("blind"), 1, 3},
                                 {mask_named("padding"), 4}}) {
    Problem problem = small_problem();
    problem.mask = mask, problem.bias = ScoreBias::kAlibi, problem.softcap = 2;
    problem.dtype = DType::kF64;
    expect_right_everywhere(problem);
  }
}

TEST_P(LayerSubject, IsRightForExtentsOfZeroAndOne) {
  for (Index value : {0, 1}) {
    Problem problem = small_problem();
    problem.q = problem.kv = value;
    expect_right_everywhere(problem);
    problem = small_problem();
    problem.batch = value;
    expect_right_everywhere(problem);
  }
}

TEST_P(LayerSubject, CostsWhatItStates) {
  for (DType dtype : all_dtypes()) {
    Problem problem = small_problem();
    problem.dtype = dtype;
    for (const Mesh& mesh : meshes()) expect_costs_as_stated(case_for(GetParam(), problem, mesh));
  }
}

INSTANTIATE_TEST_SUITE_P(All, LayerSubject,
                         testing::Values("single_attention_layer", "head_parallel_attention",
                                         "fused_head_parallel_attention",
                                         "recomputing_head_parallel_attention"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(FusedHeadParallelAttention, IsRightInEveryArrangementOfMemory) {
  for (Views views : every_views()) {
    for (DType dtype : {DType::kF32, DType::kBf16, DType::kF64}) {
      Problem problem = small_problem();
      problem.dtype = dtype;
      for (int ranks : {1, 3}) {
        Case value = case_for("fused_head_parallel_attention", problem, Mesh{{{"tp", ranks}}});
        value.placement.views = views;
        expect_computes(value, expected_layer(value.problem));
      }
    }
  }
}

TEST(FusedHeadParallelAttention, GradientsLieWhereTheirHeadsAre) {
  const Case value = case_for("fused_head_parallel_attention", small_problem(), Mesh{{{"tp", 4}}});
  for (const TensorSpec& spec : value.problem.op->tensors(value.problem)) {
    const Shard shard = subject_named("fused_head_parallel_attention").shard(value, spec, 1);
    if (spec.name == "wq") {
      EXPECT_EQ(shard[1].size(), 6u);
    }
    if (spec.name == "dwq") {
      EXPECT_EQ(shard[1], (std::vector<Index>{2, 3}));
    }
    if (spec.name == "dwv") {
      EXPECT_EQ(shard[1], (std::vector<Index>{0, 1}));  // heads 2 and 3
    }
  }
}

TEST(HeadParallelAttention, NeedsAsManyQueriesAsKeys) {
  Case value = case_for("head_parallel_attention", small_problem(), Mesh{{{"tp", 2}}});
  EXPECT_EQ(subject_named("head_parallel_attention").unsupported(value), "");
  value.problem.q = 5;
  EXPECT_EQ(subject_named("head_parallel_attention").unsupported(value),
            "attention_layer needs q == kv");
}

TEST(HeadParallelAttention, ReducesAgainOnlyForSharedHeads) {
  const auto backward_calls = [](int tp) {
    const Case value = case_for("head_parallel_attention", small_problem(), Mesh{{{"tp", tp}}});
    return traffic_of(run_case(value).ranks[0].traffic).at("backward all_reduce tp").first;
  };
  EXPECT_EQ(backward_calls(2), 1);  // three query heads and their kv head on each rank
  EXPECT_EQ(backward_calls(3), 2);  // the middle rank needs both kv heads
}

}  // namespace
}  // namespace shardproof
