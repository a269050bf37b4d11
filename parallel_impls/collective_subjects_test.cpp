#include "parallel_impls/subject_fixture.h"

namespace shardproof {
namespace {

constexpr Collective kKinds[]{Collective::kAllReduce,     Collective::kAllGather,
                              Collective::kReduceScatter, Collective::kAllToAll,
                              Collective::kBroadcast,     Collective::kRingShift};

Case collective_case(Collective kind, Index parts, Index count, DType dtype) {
  Problem problem;
  problem.collective = kind, problem.parts = parts, problem.count = count, problem.dtype = dtype;
  problem.root = parts / 2;
  problem.data = DataRecipe::kInteger;
  problem.seed = 8;
  return case_for("collectives", problem, Mesh{{{"tp", static_cast<int>(parts)}}});
}

// Element by element from the definitions; the gradients are the transposed maps.
Tensors expected_collective(const Problem& p) {
  Tensors t = inputs_of(p);
  Plain& x = t["x"];
  Plain& dy = t["dy"];
  Plain y(dy.shape);
  Plain dx(x.shape);
  for (Index r = 0; r < p.parts; ++r) {
    for (Index c = 0; c < p.count; ++c) {
      switch (p.collective) {
        case Collective::kAllReduce:
          y.at(c) += x.at(r, c);
          dx.at(r, c) = dy.at(c);
          break;
        case Collective::kAllGather:
          y.at(r, c) = x.at(r, c);
          dx.at(r, c) = dy.at(r, c);
          break;
        case Collective::kBroadcast:
          y.at(c) = x.at(p.root, c);
          dx.at(p.root, c) = dy.at(c);
          break;
        case Collective::kRingShift:
          y.at((r + 1) % p.parts, c) = x.at(r, c);
          dx.at(r, c) = dy.at((r + 1) % p.parts, c);
          break;
        case Collective::kReduceScatter:
        case Collective::kAllToAll:
          for (Index d = 0; d < p.parts; ++d) {
            const bool sums = p.collective == Collective::kReduceScatter;
            if (sums) {
              y.at(d, c) += x.at(r, d, c);
            } else {
              y.at(d, r, c) = x.at(r, d, c);
            }
            dx.at(r, d, c) = sums ? dy.at(d, c) : dy.at(d, r, c);
          }
      }
    }
  }
  t["y"] = y;
  t["dx"] = dx;
  return t;
}

TEST(Collectives, MoveAndSumWhatTheirNamesSay) {
  for (Collective kind : kKinds) {
    for (Index parts : {1, 2, 3, 5, 16}) {
      for (DType dtype : all_dtypes()) {
        const Case value = collective_case(kind, parts, 3, dtype);
        expect_computes(value, expected_collective(value.problem));
        expect_costs_as_stated(value);
      }
    }
  }
}

TEST(Collectives, MoveNothingAtAll) {
  for (Collective kind : kKinds) {
    const Case value = collective_case(kind, 3, 0, DType::kF32);
    expect_computes(value, expected_collective(value.problem));
  }
}

TEST(Collectives, AdaptToTheMesh) {
  Case value = collective_case(Collective::kBroadcast, 5, 2, DType::kF32);
  value.problem.root = 4;
  value.placement.mesh = Mesh{{{"tp", 2}}};
  EXPECT_NE(subject_named("collectives").unsupported(value), "");
  subject_named("collectives").adapt(value);
  EXPECT_EQ(subject_named("collectives").unsupported(value), "");
  EXPECT_EQ(value.problem.parts, 2);
  EXPECT_EQ(value.problem.root, 1);
}

}  // namespace
}  // namespace shardproof
