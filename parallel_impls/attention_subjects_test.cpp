#include "parallel_impls/plain_attention.h"

namespace shardproof {
namespace {

Problem small_problem(DType dtype = DType::kF32) {
  Problem problem;
  problem.batch = 2, problem.heads = 6, problem.kv_heads = 2;
  problem.q = 13, problem.kv = 11, problem.dim = 5, problem.dim_v = 3;
  problem.dtype = dtype;
  problem.seed = 77;
  return problem;
}

// The masks, each with parameters that leave some chunk pairs empty.
std::vector<MaskChoice> masks() {
  return {
      {mask_named("none")},         {mask_named("causal")},     {mask_named("causal_bottom_right")},
      {mask_named("window"), 2, 1}, {mask_named("prefix"), 3},  {mask_named("documents"), 3, 1},
      {mask_named("padding"), 7},   {mask_named("random"), 30}, {mask_named("blind"), 4, 6}};
}

std::vector<Mesh> meshes_of(const Subject& subject) {
  if (subject.name == "single_attention") return {Mesh{}};
  if (subject.axes.size() == 2) {
    return {Mesh{{{"tp", 1}, {"cp", 1}}}, Mesh{{{"tp", 2}, {"cp", 3}}},
            Mesh{{{"cp", 2}, {"tp", 3}}}, Mesh{{{"tp", 8}, {"cp", 2}}},
            Mesh{{{"cp", 1}, {"tp", 4}}}};
  }
  return {Mesh{{{"cp", 1}}}, Mesh{{{"cp", 2}}}, Mesh{{{"cp", 3}}}, Mesh{{{"cp", 4}}},
          Mesh{{{"cp", 16}}}};
}

class AttentionSubject : public testing::TestWithParam<std::string_view> {
 protected:
  // Calls visit(case) for every mesh and layout of the subject.
  template <typename Visit>
  void everywhere(const Problem& problem, Visit&& visit) {
    const Subject& subject = subject_named(GetParam());
    for (const Mesh& mesh : meshes_of(subject)) {
      for (Layout layout : all_layouts()) {
        if (!subject.uses_layout && layout != Layout::kContiguous) continue;
        visit(case_for(GetParam(), problem, mesh, layout));
      }
    }
  }

  void expect_right_everywhere(const Problem& problem) {
    const Problem with_op = case_for(GetParam(), problem, {}).problem;
    const Tensors want = expected_attention(with_op);
    everywhere(problem, [&](const Case& value) { expect_computes(value, want); });
  }
};

TEST_P(AttentionSubject, IsRightForEveryMaskMeshAndLayout) {
  for (const MaskChoice& mask : masks()) {
    Problem problem = small_problem();
    problem.mask = mask;
    expect_right_everywhere(problem);
  }
}

TEST_P(AttentionSubject, IsRightForEveryDtype) {
  for (DType dtype : all_dtypes()) {
    Problem problem = small_problem(dtype);
    problem.mask = {mask_named("causal")};
    expect_right_everywhere(problem);
  }
}

TEST_P(AttentionSubject, IsRightForEveryBiasSoftcapAndScale) {
  for (ScoreBias bias : {ScoreBias::kNone, ScoreBias::kAlibi, ScoreBias::kDense}) {
    for (double softcap : {0.0, 1.5}) {
      Problem problem = small_problem(DType::kF64);
      problem.mask = {mask_named("window"), 3, 2};
      problem.bias = bias, problem.softcap = softcap, problem.scale = softcap == 0 ? 0 : 0.75;
      expect_right_everywhere(problem);
    }
  }
}

TEST_P(AttentionSubject, IsRightWithSinks) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBf16}) {
    for (const MaskChoice& mask : masks()) {
      Problem problem = small_problem(dtype);
      problem.mask = mask;
      problem.sink = true;
      expect_right_everywhere(problem);
    }
  }
}

TEST_P(AttentionSubject, DropsTheSamePairsUnderEveryPlacement) {
  for (DType dtype : {DType::kF64, DType::kBf16}) {
    for (double dropout : {0.1, 0.5}) {
      Problem problem = small_problem(dtype);
      problem.mask = {mask_named("window"), 6, 4};
      problem.sink = dropout == 0.5;
      problem.dropout = dropout;
      expect_right_everywhere(problem);
    }
  }
}

TEST_P(AttentionSubject, IsRightForRotaryPositionsOfEveryKind) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kTf32, DType::kBf16}) {
    for (std::size_t kind = 0; kind < names_of_position_ids().size(); ++kind) {
      Problem problem = small_problem(dtype);
      problem.dim = 6;
      problem.mask = {mask_named("documents"), 3, 1};
      problem.rotary = kind == 1 ? 10000 : 10;
      problem.positions = static_cast<PositionIds>(kind);
      problem.position_offset = has_offset(problem.positions) ? 1000 : 0;
      expect_right_everywhere(problem);
      if (kind > 0) continue;
      problem.mask = {mask_named("none")};
      problem.edit = Edit::kHiddenNan;
      expect_right_everywhere(problem);
    }
  }
}

TEST_P(AttentionSubject, IsRightForEveryHeadRatio) {
  for (auto [heads, kv_heads] : {std::pair{1, 1}, {4, 4}, {4, 1}, {9, 3}, {7, 1}}) {
    Problem problem = small_problem();
    problem.heads = heads, problem.kv_heads = kv_heads;
    expect_right_everywhere(problem);
  }
}

TEST_P(AttentionSubject, IsRightForExtentsOfZeroAndOne) {
  for (Index Problem::*extent :
       {&Problem::batch, &Problem::q, &Problem::kv, &Problem::dim, &Problem::dim_v}) {
    for (Index value : {0, 1}) {
      const bool width = extent == &Problem::dim || extent == &Problem::dim_v;
      if (width && value == 0) continue;
      Problem problem = small_problem();
      problem.*extent = value;
      expect_right_everywhere(problem);
    }
  }
}

TEST_P(AttentionSubject, LeavesNoTraceOfHiddenNan) {
  for (const MaskChoice& mask : masks()) {
    Problem problem = small_problem();
    problem.mask = mask;
    problem.q = 5;  // leaves keys that nobody sees
    problem.edit = Edit::kHiddenNan;
    expect_right_everywhere(problem);
  }
}

TEST_P(AttentionSubject, CostsWhatItStates) {
  for (const MaskChoice& mask : masks()) {
    for (DType dtype : {DType::kF32, DType::kBf16, DType::kF64}) {
      Problem problem = small_problem(dtype);
      problem.mask = mask;
      problem.sink = dtype != DType::kF64;
      problem.dim = 4, problem.rotary = problem.sink ? 10 : 0;
      everywhere(problem, [&](const Case& value) { expect_costs_as_stated(value); });
    }
  }
}

TEST_P(AttentionSubject, GivesTheSameBitsUnderEverySchedule) {
  Problem problem = small_problem();
  problem.mask = {mask_named("causal")};
  everywhere(problem, [&](Case value) {
    const Outcome first = run_case(value);
    for (std::uint64_t schedule : {1, 2, 77}) {
      value.placement.schedule = schedule;
      const Outcome other = run_case(value);
      ASSERT_EQ(other.ending, Ending::kCompleted) << other.message;
      for (std::size_t t = 0; t < first.tensors.size(); ++t) {
        EXPECT_EQ(first.tensors[t].got, other.tensors[t].got) << first.tensors[t].spec.name;
      }
    }
  });
}

TEST_P(AttentionSubject, IsRightInEveryArrangementOfMemory) {
  for (Views views : every_views()) {
    for (Index keys : {11, 7}) {  // as many as queries, or not
      Problem problem = small_problem();
      problem.kv = keys, problem.bias = ScoreBias::kDense, problem.sink = true;
      problem.dtype = keys == 7 ? DType::kBf16 : DType::kF32;
      everywhere(problem, [&](Case value) {
        value.placement.views = views;
        expect_computes(value, expected_attention(value.problem));
      });
    }
  }
}

TEST_P(AttentionSubject, RefusesMeshAxesItDoesNotKnow) {
  Case value = case_for(GetParam(), small_problem(), Mesh{{{"pp", 2}}});
  EXPECT_NE(subject_named(GetParam()).unsupported(value), "");
}

INSTANTIATE_TEST_SUITE_P(All, AttentionSubject,
                         testing::Values("single_attention", "ring_attention",
                                         "allgather_attention", "ring_heads_attention",
                                         "ulysses_attention", "ulysses_ring_attention"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(RingAttention, MovesKeysAndValuesOnceRoundLessOneHop) {
  const Case value = case_for("ring_attention", small_problem(), Mesh{{{"cp", 4}}});
  const Outcome outcome = run_case(value);
  for (const RankFacts& facts : outcome.ranks) {
    const auto sums = traffic_of(facts.traffic);
    EXPECT_EQ(sums.at("forward send cp").first, 2 * 3);
    EXPECT_EQ(sums.at("backward send cp").first, 2 * 3 + 2 * 4);
  }
}

TEST(RingAttention, StartsATransferBeforeItComputes) {
  Problem problem = small_problem();
  const Case value = case_for("ring_attention", problem, Mesh{{{"cp", 4}}});
  const Outcome outcome = run_case(value);
  // Forward: the first two messages leave at virtual time 0, before any product.
  std::map<int, std::vector<double>> starts;
  for (const Event& event : outcome.trace) {
    if (event.phase == Phase::kForward && event.operation == "send") {
      starts[event.rank].push_back(event.start);
    }
  }
  for (const auto& [rank, times] : starts) {
    ASSERT_EQ(times.size(), 6u);
    EXPECT_EQ(times[0], 0);
    EXPECT_EQ(times[1], 0);
    EXPECT_GT(times[2], 0);
  }
}

TEST(RingAttention, SkipsWhatACausalMaskEmpties) {
  Problem problem = small_problem();
  problem.q = problem.kv = 16;
  problem.mask = {mask_named("causal")};
  const auto work = [&](Layout layout, int rank) {
    const Case value = case_for("ring_attention", problem, Mesh{{{"cp", 4}}}, layout);
    return run_case(value).ranks[static_cast<std::size_t>(rank)].meter.score_elements;
  };
  const double block = 2.0 * 6 * 4 * 4;  // batch, heads, 4 queries, 4 keys
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(work(Layout::kContiguous, rank), (rank + 1) * block);
    EXPECT_EQ(work(Layout::kZigzag, rank), work(Layout::kZigzag, 0));
    EXPECT_EQ(work(Layout::kStriped, rank), 4 * block);
  }
}

TEST(AllgatherAttention, KeepsEveryBlockAtOnce) {
  const Problem problem = small_problem();
  const Case ring = case_for("ring_attention", problem, Mesh{{{"cp", 11}}});
  const Case gather = case_for("allgather_attention", problem, Mesh{{{"cp", 11}}});
  const Index block = 2 * 2 * (5 + 3) * 4;  // a token of every batch entry and head
  EXPECT_EQ(run_case(ring).ranks[0].peak_received_bytes, 2 * block);
  EXPECT_EQ(run_case(gather).ranks[0].peak_received_bytes, 11 * block);
}

TEST(RingHeadsAttention, ReplicatesOnlySharedKeyValueHeads) {
  Problem problem = small_problem();  // heads 0..2 use kv head 0, heads 3..5 kv head 1
  const auto kv_heads_of = [&](int tp, int rank) {
    const Case value = case_for("ring_heads_attention", problem, Mesh{{{"tp", tp}}});
    const TensorSpec spec = value.problem.op->tensors(value.problem)[1];
    EXPECT_EQ(spec.name, "k");
    return subject_named("ring_heads_attention").shard(value, spec, rank)[2];
  };
  EXPECT_EQ(kv_heads_of(2, 0), (std::vector<Index>{0}));
  EXPECT_EQ(kv_heads_of(2, 1), (std::vector<Index>{1}));
  EXPECT_EQ(kv_heads_of(4, 1), (std::vector<Index>{0, 1}));  // heads 2 and 3
  EXPECT_EQ(kv_heads_of(8, 7), (std::vector<Index>{}));
}

}  // namespace
}  // namespace shardproof
