// What the exchange subjects promise beyond being right: who holds what, and what they cost.
#include "parallel_impls/subject_fixture.h"
#include "parallel_impls/ulysses_cost.h"

namespace shardproof {
namespace {

Problem small_problem(Index heads, Index kv_heads) {
  Problem problem;
  problem.batch = 2, problem.heads = heads, problem.kv_heads = kv_heads;
  problem.q = 12, problem.kv = 8, problem.dim = 5, problem.dim_v = 3;
  problem.bias = ScoreBias::kDense;
  return problem;
}

Shard shard_of(const Case& value, std::string_view tensor, int rank) {
  for (const TensorSpec& spec : value.problem.op->tensors(value.problem)) {
    if (spec.name == tensor) {
      return subject_named(value.placement.subject).shard(value, spec, rank);
    }
  }
  throw std::invalid_argument("no such tensor");
}

TEST(UlyssesAttention, HoldsTokensOfEveryHeadAndTheBiasOfItsHeads) {
  const Case value =
      case_for("ulysses_attention", small_problem(3, 1), Mesh{{{"cp", 2}}}, Layout::kZigzag);
  EXPECT_EQ(shard_of(value, "q", 1)[1], (std::vector<Index>{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(shard_of(value, "q", 1)[2], (std::vector<Index>{0, 1, 2}));
  EXPECT_EQ(shard_of(value, "k", 0)[1], (std::vector<Index>{0, 1, 6, 7}));
  EXPECT_EQ(shard_of(value, "bias", 0)[0], (std::vector<Index>{0, 1}));
  EXPECT_EQ(shard_of(value, "bias", 1)[0], (std::vector<Index>{2}));
  EXPECT_EQ(shard_of(value, "bias", 1)[1].size(), 12u);
}

TEST(UlyssesRingAttention, CutsABlockOfTheRingIntoContiguousParts) {
  const Case value = case_for("ulysses_ring_attention", small_problem(3, 1),
                              Mesh{{{"cp", 2}, {"tp", 2}}}, Layout::kStriped);
  EXPECT_EQ(shard_of(value, "q", 2)[1], (std::vector<Index>{1, 3, 5}));   // cp 1, tp 0
  EXPECT_EQ(shard_of(value, "q", 3)[1], (std::vector<Index>{7, 9, 11}));  // cp 1, tp 1
  EXPECT_EQ(shard_of(value, "bias", 3)[0], (std::vector<Index>{2}));
  EXPECT_EQ(shard_of(value, "bias", 3)[1], (std::vector<Index>{1, 3, 5, 7, 9, 11}));
}

TEST(Ulysses, OwnsEveryTokenOnce) {
  for (std::string_view subject : {"ulysses_attention", "ulysses_ring_attention"}) {
    for (Layout layout : all_layouts()) {
      const bool ring = subject == "ulysses_ring_attention";
      const Mesh mesh = ring ? Mesh{{{"tp", 5}, {"cp", 3}}} : Mesh{{{"cp", 5}}};
      const Case value = case_for(subject, small_problem(4, 2), mesh, layout);
      std::vector<int> owners(12);
      for (int rank = 0; rank < mesh.ranks(); ++rank) {
        const Shard shard = shard_of(value, "q", rank);
        for (Index token : shard[1]) ++owners[static_cast<std::size_t>(token)];
      }
      EXPECT_EQ(owners, std::vector<int>(12, 1)) << subject << " " << name(layout);
    }
  }
}

// Two ranks, 4 query heads and 2 of keys: a rank sends half of what it has, but for its own half.
TEST(UlyssesAttention, ExchangesHalfOfEachTensor) {
  const Case value = case_for("ulysses_attention", small_problem(4, 2), Mesh{{{"cp", 2}}});
  const Outcome outcome = run_case(value);
  const Index q = 2 * 6 * 2;  // batch, own queries, heads of the other rank
  const Index k = 2 * 4 * 1;
  for (const RankFacts& facts : outcome.ranks) {
    const auto sums = traffic_of(facts.traffic);
    EXPECT_EQ(sums.size(), 2u);
    EXPECT_EQ(sums.at("forward all_to_all cp"),
              std::pair(Index{5}, 4 * (q * 5 + k * 8 + q * 3 + q)));
    EXPECT_EQ(sums.at("backward all_to_all cp"),
              std::pair(Index{5}, 4 * (q * 3 + q + q * 5 + k * 8)));
  }
}

// One key/value head for four ranks: each has it whole, and v as it arrives besides.
TEST(UlyssesAttention, KeepsTheWholeSequenceOfItsKeyValueHeads) {
  const Case value = case_for("ulysses_attention", small_problem(4, 1), Mesh{{{"cp", 4}}});
  for (const RankFacts& facts : run_case(value).ranks) {
    EXPECT_EQ(facts.peak_received_bytes, 2 * 8 * 4 * (5 + 2 * 3));
  }
}

TEST(UlyssesAttention, LeavesRanksBeyondTheHeadsIdle) {
  const Case value = case_for("ulysses_attention", small_problem(3, 3), Mesh{{{"cp", 5}}});
  const Outcome outcome = run_case(value);
  for (std::size_t rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(outcome.ranks[rank].meter.score_elements, rank < 3 ? 2 * 12 * 8 : 0);
  }
}

// A mesh with one rank along tp is the ring, with one along cp Ulysses: no other bytes move.
TEST(UlyssesRingAttention, IsARingOrUlyssesWhereTheOtherAxisIsOne) {
  const Problem problem = small_problem(4, 2);
  const auto sums = [&](const Mesh& mesh) {
    return traffic_of(run_case(case_for("ulysses_ring_attention", problem, mesh)).ranks[0].traffic);
  };
  const auto ring = sums(Mesh{{{"tp", 1}, {"cp", 3}}});
  EXPECT_EQ(ring.at("forward all_to_all tp").second, 0);
  EXPECT_EQ(ring.at("forward send cp").first, 4);
  const auto ulysses = sums(Mesh{{{"tp", 3}, {"cp", 1}}});
  EXPECT_FALSE(ulysses.contains("forward send cp"));
  EXPECT_GT(ulysses.at("forward all_to_all tp").second, 0);
}

}  // namespace
}  // namespace shardproof
