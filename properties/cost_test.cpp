// The properties that hold a subject to its Cost: communication_contract, kv_residency,
// work_balance.
#include <gtest/gtest.h>

#include <optional>

#include "harness/check/fake.h"
#include "properties/properties.h"

namespace shardproof {

const Property& communication_contract_property();
const Property& kv_residency_property();
const Property& work_balance_property();

namespace {

std::vector<Traffic> promised_traffic() {
  return {{Phase::kForward, "send", "cp", 3, 300}, {Phase::kBackward, "all_reduce", "cp", 1, 64}};
}

Cost promises(std::optional<std::vector<Traffic>> traffic, std::optional<Index> resident,
              std::optional<double> scores) {
  Cost cost;
  cost.traffic = std::move(traffic);
  cost.kv_resident_bytes = resident;
  cost.score_elements = scores;
  return cost;
}

class CostTest : public testing::Test {
 protected:
  // Four ranks, 8 tokens, causal; 2 batch entries of 2 heads.
  void prepare(Layout layout) {
    Case value = fake::small_case();
    value.placement.layout = layout;
    run_ = fake::right_run(value, subject_);
    for (RankFacts& facts : run_.outcome.ranks) {
      facts.traffic = promised_traffic();
      facts.traffic.push_back({Phase::kForward, "receive", "cp", 3, 300});
      facts.peak_received_bytes = 100;
    }
  }

  Verdict judge(const Property& property) { return property.judge({run_, {}}); }

  void set_work(std::vector<double> scores) {
    for (std::size_t i = 0; i < scores.size(); ++i) {
      run_.outcome.ranks[i].meter.score_elements = scores[i];
    }
  }

  Subject subject_ = fake::subject();
  shardproof::Run run_;
};

TEST_F(CostTest, PromisesThatAreNotMadeAreNotJudged) {
  prepare(Layout::kContiguous);
  for (const Property* property :
       {&communication_contract_property(), &kv_residency_property(), &work_balance_property()}) {
    EXPECT_EQ(judge(*property).kind, VerdictKind::kDiscarded) << property->name;
  }
}

TEST_F(CostTest, CommunicationIsExactlyWhatIsPromised) {
  const Property& property = communication_contract_property();
  subject_.cost = [](const Case&, int) { return promises(promised_traffic(), {}, {}); };
  prepare(Layout::kContiguous);
  EXPECT_EQ(judge(property).kind, VerdictKind::kHolds) << judge(property).message;
  auto& traffic = run_.outcome.ranks[2].traffic;

  traffic[0].calls = 4;
  EXPECT_EQ(judge(property).symptom, "calls differ");
  EXPECT_NE(judge(property).message.find("rank 2"), std::string::npos);
  traffic[0] = promised_traffic()[0];
  traffic[1].bytes = 65;
  EXPECT_EQ(judge(property).symptom, "bytes differ");
  traffic[1] = promised_traffic()[1];
  traffic[0].phase = Phase::kBackward;
  EXPECT_EQ(judge(property).symptom, "calls differ");
  traffic[0] = promised_traffic()[0];
  traffic[0].axis = "tp";
  EXPECT_EQ(judge(property).symptom, "calls differ");
  traffic[0] = promised_traffic()[0];
  traffic.push_back({Phase::kForward, "barrier", "cp", 1, 0});
  EXPECT_EQ(judge(property).symptom, "calls differ") << "a call that was not promised";
  traffic.clear();
  EXPECT_EQ(judge(property).symptom, "calls differ") << "promised calls that were not made";
}

TEST_F(CostTest, SilenceIsAPromiseToo) {
  subject_.cost = [](const Case&, int) { return promises(std::vector<Traffic>{}, {}, {}); };
  prepare(Layout::kContiguous);
  EXPECT_EQ(judge(communication_contract_property()).symptom, "calls differ");
  for (RankFacts& facts : run_.outcome.ranks) facts.traffic.clear();
  EXPECT_EQ(judge(communication_contract_property()).kind, VerdictKind::kHolds);
}

TEST_F(CostTest, RanksThatDisagreeBreakTheCommunicationContract) {
  prepare(Layout::kContiguous);
  run_.outcome.ending = Ending::kMismatched;
  run_.outcome.message = "rank 0 calls all_reduce, rank 1 broadcast";
  const Verdict verdict = judge(communication_contract_property());
  EXPECT_EQ(verdict.kind, VerdictKind::kFalsified);
  EXPECT_EQ(verdict.symptom, "ranks disagree");
  EXPECT_EQ(verdict.message, run_.outcome.message);
  run_.outcome.ending = Ending::kDeadlocked;
  EXPECT_EQ(judge(communication_contract_property()).kind, VerdictKind::kDiscarded);
}

TEST_F(CostTest, ResidencyMayBeBelowThePromiseButNotAbove) {
  subject_.cost = [](const Case&, int) { return promises({}, 100, {}); };
  prepare(Layout::kContiguous);
  EXPECT_EQ(judge(kv_residency_property()).kind, VerdictKind::kHolds);
  run_.outcome.ranks[3].peak_received_bytes = 101;
  EXPECT_EQ(judge(kv_residency_property()).kind, VerdictKind::kFalsified);
  EXPECT_EQ(judge(kv_residency_property()).got, 101);
}

// 4 (batch, head) pairs and blocks of 2 tokens: a block pair is 16 scores.
TEST_F(CostTest, WorkIsExactlyWhatIsPromised) {
  const Property& property = work_balance_property();
  subject_.cost = [](const Case&, int rank) { return promises({}, 0, 16.0 * (rank + 1)); };
  prepare(Layout::kContiguous);
  set_work({16, 32, 48, 64});
  EXPECT_EQ(judge(property).kind, VerdictKind::kHolds) << judge(property).message;
  set_work({16, 32, 48, 63});
  EXPECT_EQ(judge(property).symptom, "work differs");
}

TEST_F(CostTest, BlocksThatTheMaskEmptiesAreSkippedAndNothingElse) {
  const Property& property = work_balance_property();
  subject_.cost = [](const Case&, int) { return promises({}, 0, 64.0); };
  prepare(Layout::kContiguous);
  set_work({64, 64, 64, 64});
  EXPECT_EQ(judge(property).symptom, "too much work");
  subject_.cost = [](const Case&, int) { return promises({}, {}, 64.0); };
  EXPECT_EQ(judge(property).kind, VerdictKind::kHolds) << "it does not hold keys by blocks";
  subject_.cost = [](const Case&, int) { return promises({}, {}, 40.0); };
  set_work({40, 40, 40, 40});
  EXPECT_EQ(judge(property).symptom, "too little work") << "the last two queries see 15 keys";
}

// Documents 0-1, 2-4, 5-7 and blocks of 2 tokens: rank 2 meets three blocks, rank 0 one.
TEST_F(CostTest, EveryMaskLimitsTheWork) {
  const Property& property = work_balance_property();
  run_ = fake::right_run(fake::small_case("documents", 2), subject_);
  const auto judge_work = [&](std::vector<double> scores) {
    run_.costs = [costs = std::vector<Cost>(), scores]() mutable -> const std::vector<Cost>& {
      costs.clear();
      for (double each : scores) costs.push_back(promises({}, 0, each));
      return costs;
    };
    set_work(scores);
    return judge(property).symptom;
  };
  EXPECT_EQ(judge_work({16, 32, 48, 32}), "");
  EXPECT_EQ(judge_work({16, 24, 24, 24}), "") << "parts of blocks may be skipped, too";
  EXPECT_EQ(judge_work({17, 32, 48, 32}), "too much work");
  EXPECT_EQ(judge_work({16, 32, 64, 32}), "too much work");
  EXPECT_EQ(judge_work({16, 32, 48, 23}), "too little work");
}

// Causal, 8 tokens, 4 (batch, head) pairs: the mask leaves 4 * 36 scores.
TEST_F(CostTest, WhereQueriesTravelAllRanksTogetherDoTheWork) {
  const Property& property = work_balance_property();
  subject_.queries_travel = true;
  subject_.cost = [](const Case&, int rank) { return promises({}, 0, rank == 3 ? 144.0 : 0.0); };
  prepare(Layout::kZigzag);
  set_work({0, 0, 0, 144});
  EXPECT_EQ(judge(property).kind, VerdictKind::kHolds) << judge(property).message;
  subject_.cost = [](const Case&, int rank) { return promises({}, 0, rank == 3 ? 143.0 : 0.0); };
  prepare(Layout::kZigzag);
  set_work({0, 0, 0, 143});
  EXPECT_EQ(judge(property).symptom, "too little work");
}

TEST_F(CostTest, BalancedLayoutsAreWithinABlockPair) {
  const Property& property = work_balance_property();
  subject_.cost = [](const Case&, int rank) { return promises({}, {}, rank == 3 ? 68.0 : 52.0); };
  for (Layout layout : {Layout::kZigzag, Layout::kStriped}) {
    prepare(layout);
    set_work({52, 52, 52, 68});
    EXPECT_EQ(judge(property).kind, VerdictKind::kHolds) << judge(property).message;
  }
  subject_.cost = [](const Case&, int rank) { return promises({}, {}, rank == 3 ? 69.0 : 52.0); };
  for (Layout layout : {Layout::kZigzag, Layout::kStriped}) {
    prepare(layout);
    set_work({52, 52, 52, 69});
    EXPECT_EQ(judge(property).symptom, "unbalanced");
  }
}

}  // namespace
}  // namespace shardproof
