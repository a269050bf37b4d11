// Tensors of the simulated world that are no dense allocations of their own.
#include "harness/model/element.h"
#include "harness/worlds/sim_fixture.h"

namespace shardproof {
namespace {

constexpr Views kAll[] = {Views::kDense,  Views::kOffset,     Views::kStrided,
                          Views::kPacked, Views::kTransposed, Views::kFar};

Case case_of(Views views, int ranks = 2) {
  Case value = fixture_case(cp_mesh(ranks), 2, 7, 3);
  value.placement.views = views;
  return value;
}

TEST(SimViews, InputsAndOutputsAreTheSameInEveryArrangement) {
  for (Views views : kAll) {
    for (int ranks : {1, 2, 5, 16}) {
      for (DType dtype : all_dtypes()) {
        Case value = case_of(views, ranks);
        value.problem.dtype = dtype;
        const Outcome outcome = run_sim(value, fixture_subject(&copy_forward), {true, true});
        expect_clean(outcome);
        const auto specs = fixture_tensors(value.problem);
        EXPECT_EQ(outcome.find("y")->got, whole_tensor(value.problem, specs[0]));
        EXPECT_EQ(outcome.find("dx")->got, whole_tensor(value.problem, specs[1]));
      }
    }
  }
}

TEST(SimViews, OnlyDenseAndOffsetTensorsAreDense) {
  for (Views views : kAll) {
    static bool dense = false;
    const Outcome outcome = run_sim(case_of(views, 1), fixture_subject([](Rank& rank) {
                                      dense = rank.get("x").is_dense();
                                      copy_forward(rank);
                                    }));
    expect_clean(outcome);
    // The fixture has no two tensors to pack.
    const bool expected =
        views == Views::kDense || views == Views::kOffset || views == Views::kPacked;
    EXPECT_EQ(dense, expected) << static_cast<int>(views);
  }
}

TEST(SimViews, AStoreBetweenRowsIsFound) {
  for (Views views : {Views::kOffset, Views::kStrided, Views::kFar}) {
    const Outcome outcome = run_sim(case_of(views, 1), fixture_subject([](Rank& rank) {
                                      copy_forward(rank);
                                      View y = rank.get("y").slice(0, 6, 1).slice(1, 2, 1);
                                      y.data += storage_bytes(y.dtype);
                                      y.put(0, 0);
                                    }));
    const Finding finding = only_finding(outcome, Breach::kGuardBand);
    EXPECT_EQ(finding.tensor, "y");
    EXPECT_EQ(finding.rank, 0);
  }
}

TEST(SimViews, AStoreToAnIndexCutTo32BitsIsFound) {
  const Outcome outcome = run_sim(case_of(Views::kFar, 1), fixture_subject([](Rank& rank) {
                                    copy_forward(rank);
                                    View y = rank.get("y").slice(0, 0, 1);
                                    const Index row = 5 * rank.get("y").strides[0];
                                    y.data += Index{static_cast<std::int32_t>(row)} * 4;
                                    y.put(0, 0);
                                  }));
  EXPECT_EQ(only_finding(outcome, Breach::kGuardBand).tensor, "y");
}

TEST(SimViews, AChangedInputAndAnUnwrittenOutputAreFoundAtTheirPosition) {
  for (Views views : kAll) {
    const Outcome changed = run_sim(case_of(views, 1), fixture_subject([](Rank& rank) {
                                      copy_forward(rank);
                                      rank.get("x").set({4, 1}, 77);
                                    }));
    EXPECT_EQ(only_finding(changed, Breach::kInputChanged).element, 4 * 3 + 1);
    const Outcome unwritten = run_sim(case_of(views, 1), fixture_subject([](Rank& rank) {
                                        const View y = rank.get("y").slice(0, 0, 5);
                                        rank.device().copy(rank.get("x").slice(0, 0, 5), y);
                                      }));
    EXPECT_EQ(only_finding(unwritten, Breach::kUnwritten).element, 5 * 3);
  }
}

TEST(SimViews, AMessageNeedsADenseView) {
  const Outcome outcome =
      run_sim(case_of(Views::kStrided),
              fixture_subject([](Rank& rank) { rank.along("cp").all_reduce(rank.get("x")); }));
  EXPECT_EQ(outcome.ending, Ending::kThrew);
  EXPECT_NE(outcome.message.find("not dense"), std::string::npos) << outcome.message;
}

}  // namespace
}  // namespace shardproof
