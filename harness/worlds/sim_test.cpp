// The simulated world as a whole: what it finds, that it is a function of the case, and its cost.
#include <cmath>
#include <set>
#include <stdexcept>

#include "harness/model/element.h"
#include "harness/model/require.h"
#include "harness/worlds/sim_fixture.h"

namespace shardproof {
namespace {

TEST(Sim, OutputsArePutTogetherFromEveryLayoutAndRankCount) {
  auto world = make_sim();
  for (Layout layout : all_layouts()) {
    for (int ranks : {1, 2, 3, 5, 16}) {  // 16 ranks: some own nothing
      Case value = fixture_case(cp_mesh(ranks), 2, 7, 3);
      value.placement.layout = layout;
      const Outcome outcome = world->run(value, fixture_subject(&copy_forward), {});
      expect_clean(outcome);
      const auto specs = fixture_tensors(value.problem);
      ASSERT_EQ(outcome.tensors.size(), 2u);
      EXPECT_EQ(outcome.tensors[0].got, whole_tensor(value.problem, specs[0]));
      EXPECT_EQ(outcome.tensors[1].got, whole_tensor(value.problem, specs[1]));
      EXPECT_EQ(outcome.ranks.size(), static_cast<std::size_t>(ranks));
    }
  }
}

TEST(Sim, AProblemWithNothingInItRuns) {
  expect_clean(run_sim(fixture_case(cp_mesh(2), 1, 0, 3), fixture_subject(&copy_forward)));
}

TEST(Sim, ElementsThatNoRankHoldsAreNan) {
  Subject subject = fixture_subject(&copy_forward);
  subject.shard = [](const Case&, const TensorSpec&, int) { return Shard{{0, 2}, {1}}; };
  const Outcome outcome = run_sim(fixture_case({}, 0, 3, 2), subject);
  expect_clean(outcome);
  const std::vector<double>& y = outcome.find("y")->got;
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[3]) && std::isnan(y[4]));
  EXPECT_FALSE(std::isnan(y[1]) || std::isnan(y[5]));
}

TEST(Sim, AnUnwrittenElementIsFoundWithItsGlobalPosition) {
  const auto forward = [](Rank& rank) {
    const View y = rank.get("y");
    const Index tokens = y.shape[0] - (rank.index() == 1 ? 1 : 0);
    rank.device().copy(rank.get("x").slice(0, 0, tokens), y.slice(0, 0, tokens));
  };
  const Finding finding = only_finding(
      run_sim(fixture_case(cp_mesh(2), 0, 7, 3), fixture_subject(forward)), Breach::kUnwritten);
  EXPECT_EQ(finding.rank, 1);
  EXPECT_EQ(finding.tensor, "y");
  EXPECT_EQ(finding.element, 6 * 3);
}

TEST(Sim, NanThatWasComputedFromPoisonCountsAsWritten) {
  const auto forward = [](Rank& rank) {
    Tensor unset = rank.make(DType::kF32, rank.get("y").shape);
    copy_forward(rank);
    rank.device().add(unset, rank.get("y"));
  };
  const Outcome outcome = run_sim(fixture_case({}), fixture_subject(forward));
  expect_clean(outcome);
  EXPECT_TRUE(std::isnan(outcome.find("y")->got[0]));
}

TEST(Sim, AChangedInputIsFoundWithItsGlobalPosition) {
  const auto backward = [](Rank& rank) {
    copy_backward(rank);
    if (rank.index() == 1) rank.get("x").set({0, 2}, 100);
  };
  const Finding finding = only_finding(
      run_sim(fixture_case(cp_mesh(2), 0, 7, 3), fixture_subject(&copy_forward, backward)),
      Breach::kInputChanged);
  EXPECT_EQ(finding.rank, 1);
  EXPECT_EQ(finding.tensor, "x");
  EXPECT_EQ(finding.element, 4 * 3 + 2);
}

TEST(Sim, ReplicasThatDifferInOneBitAreFound) {
  const auto forward = [](Rank& rank) {
    copy_forward(rank);
    const View y = rank.get("y");
    if (rank.coordinate("tp") == 1 && rank.coordinate("cp") == 0) {
      reinterpret_cast<std::uint32_t*>(y.data)[4] ^= 1;
    }
  };
  const Case value = fixture_case(Mesh{{{"tp", 3}, {"cp", 2}}}, 0, 7, 3);
  const Finding finding =
      only_finding(run_sim(value, fixture_subject(forward)), Breach::kReplicasDiffer);
  EXPECT_EQ(finding.rank, 2);
  EXPECT_EQ(finding.tensor, "y");
  EXPECT_EQ(finding.element, 4);
  EXPECT_EQ(finding.detail.find("rank 0 holds "), 0u);
}

TEST(Sim, WritingOutsideATensorIsFound) {
  const auto forward = [](Rank& rank) {
    copy_forward(rank);
    Tensor work = rank.make(DType::kF32, {2, 3});
    if (rank.index() == 1) reinterpret_cast<float*>(work.view().data)[6] = 0;
    if (rank.index() == 2) reinterpret_cast<float*>(rank.get("dx").data)[-1] = 0;
  };
  const Outcome outcome = run_sim(fixture_case(cp_mesh(3), 0, 9, 3), fixture_subject(forward));
  ASSERT_EQ(outcome.findings.size(), 2u) << text(outcome);
  EXPECT_EQ(outcome.findings[0].breach, Breach::kGuardBand);
  EXPECT_EQ(outcome.findings[0].rank, 1);
  EXPECT_EQ(outcome.findings[0].tensor, "a work tensor [2, 3]");
  EXPECT_EQ(outcome.findings[1].rank, 2);
  EXPECT_EQ(outcome.findings[1].tensor, "dx");
}

int unwound = 0;  // counts destructors in the test below

TEST(Sim, AThrowEndsTheRunAndUnwindsTheOthers) {
  unwound = 0;
  const auto forward = [](Rank& rank) {
    struct Guard {
      Communicator& ring;
      ~Guard() {
        ++unwound;
        ring.barrier();  // must not throw while unwinding
      }
    };
    if (rank.index() == 2) throw std::runtime_error("no such thing");
    const Guard guard{rank.along("cp")};
    rank.along("cp").barrier();
  };
  auto world = make_sim();
  const Outcome outcome = world->run(fixture_case(cp_mesh(3)), fixture_subject(forward), {});
  EXPECT_EQ(outcome.ending, Ending::kThrew);
  EXPECT_EQ(outcome.message, "rank 2: no such thing");
  EXPECT_TRUE(outcome.tensors.empty());
  EXPECT_EQ(unwound, 2);
  expect_clean(world->run(fixture_case(cp_mesh(3)), fixture_subject(&copy_forward), {}));
}

TEST(Sim, ASubjectThatSwallowsTheUnwindingStillEnds) {
  const auto forward = [](Rank& rank) {
    if (rank.index() == 0) throw 42;
    for (int attempt = 0; attempt < 3; ++attempt) {
      try {
        rank.along("cp").barrier();
      } catch (...) {
      }
    }
  };
  const Outcome outcome = run_sim(fixture_case(cp_mesh(3), 0), fixture_subject(forward));
  EXPECT_EQ(outcome.ending, Ending::kThrew);
  EXPECT_EQ(outcome.message, "rank 0: an exception that is not a std::exception");
}

TEST(Sim, HandlersOfSeveralRanksMayOverlap) {
  const auto forward = [](Rank& rank) {
    try {
      throw rank.index();
    } catch (int) {
      rank.along("cp").barrier();  // others throw and catch meanwhile
      try {
        throw;
      } catch (int caught) {
        EXPECT_EQ(caught, rank.index());
      }
    }
    copy_forward(rank);
  };
  expect_clean(run_sim(fixture_case(cp_mesh(4), 5), fixture_subject(forward)));
}

TEST(Sim, AShardOutsideTheTensorIsTheSubjectsFault) {
  Subject subject = fixture_subject(&copy_forward);
  subject.shard = [](const Case&, const TensorSpec&, int) { return Shard{{0, 7}, {0, 1, 2}}; };
  const Outcome outcome = run_sim(fixture_case({}), subject);
  EXPECT_EQ(outcome.ending, Ending::kThrew);
  EXPECT_EQ(outcome.message,
            "rank 0: the shard of x holds index 7 of dimension 0, which has extent 7");
}

TEST(Sim, AnUnknownDeviceListsTheChoices) {
  Case value = fixture_case({});
  value.placement.device = "abacus";
  try {
    run_sim(value, fixture_subject(&copy_forward));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'abacus'; choices: cpu"), std::string::npos);
  }
}

TEST(Sim, ShardsAreKeptWhenAskedFor) {
  const Case value = fixture_case(cp_mesh(3), 0, 7, 2);
  EXPECT_TRUE(run_sim(value, fixture_subject(&copy_forward)).shards.empty());
  const Outcome outcome =
      run_sim(value, fixture_subject(&copy_forward), {.keep_shards = true, .keep_trace = true});
  ASSERT_EQ(outcome.shards.size(), 6u);  // y and dx on three ranks
  const KeptShard& last = outcome.shards[2];
  EXPECT_EQ(last.tensor, "y");
  EXPECT_EQ(last.rank, 2);
  EXPECT_EQ(last.shard[0], (std::vector<Index>{5, 6}));
  EXPECT_EQ(last.values[2], outcome.find("y")->got[12]);
}

TEST(Sim, MemoryThatReceivedKeysAndValuesIsCounted) {
  const auto forward = [](Rank& rank) {
    Tensor one = rank.make(DType::kBf16, {8});
    rank.holds_remote_kv(one.view().slice(0, 2, 2));
    rank.holds_remote_kv(one);  // the same tensor
    {
      Tensor two = rank.make(DType::kBf16, {16});
      rank.holds_remote_kv(two);
    }
    Tensor three = rank.make(DType::kBf16, {10});
    rank.holds_remote_kv(three);
    copy_forward(rank);
  };
  const Outcome outcome = run_sim(fixture_case({}), fixture_subject(forward));
  EXPECT_EQ(outcome.ranks[0].peak_received_bytes, 16 + 32);
  EXPECT_EQ(outcome.ranks[0].peak_bytes, 4 * 7 * 3 * 4 + 16 + 32);
}

}  // namespace
}  // namespace shardproof
