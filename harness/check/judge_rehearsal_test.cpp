// A case of another world is judged in the simulated one first.
#include <gtest/gtest.h>

#include "harness/check/judge_fixture_test.h"

namespace shardproof {
namespace {

using namespace fake;

// A world of processes that counts its runs and has a limit of ranks.
class LimitedWorld : public FakeWorld {
 public:
  explicit LimitedWorld(int& runs) : runs_(runs) {}
  std::string unsupported(int ranks) const override {
    return most_ > 0 && ranks > most_ ? "too many ranks" : "";
  }
  void limit_ranks(int ranks) override { most_ = ranks; }
  Outcome run(const Case& value, const Subject& subject, const RunOptions& options) override {
    ++runs_;
    return FakeWorld::run(value, subject, options);
  }

 private:
  int& runs_;
  int most_ = 0;
};

int runs_of_processes = 0;

class RehearsalTest : public JudgeTest {
 protected:
  RehearsalTest() {
    runs_of_processes = 0;
    tables_.worlds[0].name = "sim";
    tables_.worlds.push_back(tables_.worlds[0]);
    tables_.worlds[1].name = "mpi";
    tables_.worlds[1].make = [](std::vector<DeviceEntry>) -> std::unique_ptr<World> {
      return std::make_unique<LimitedWorld>(runs_of_processes);
    };
  }

  CaseReport judge_in_mpi(std::uint64_t schedule = 100) {
    Judge fresh(tables_);
    Case value = with_schedule(fake::small_case(), schedule);
    value.placement.world = "mpi";
    const std::vector<const Property*> properties{&kAlone, &kFirst};
    return fresh.judge(value, properties);
  }
};

TEST_F(RehearsalTest, ACaseThatHeldGoesOnToProcesses) {
  const CaseReport report = judge_in_mpi();
  EXPECT_EQ(report.value.placement.world, "mpi");
  EXPECT_EQ(report.overall, VerdictKind::kHolds);
  EXPECT_EQ(runs_of_processes, 2);
}

TEST_F(RehearsalTest, ACaseThatFailsInTheSimulatedWorldGoesNoFurther) {
  const CaseReport report = judge_in_mpi(kDeadlocks);
  EXPECT_EQ(report.value.placement.world, "sim");
  EXPECT_EQ(report.overall, VerdictKind::kDeadlocked);
  EXPECT_EQ(runs_of_processes, 0);
}

TEST_F(RehearsalTest, ACaseWithTooManyRanksIsRefused) {
  tables_.most_ranks = fake::small_case().placement.mesh.ranks() - 1;
  const CaseReport report = judge_in_mpi();
  EXPECT_EQ(report.overall, VerdictKind::kRefused);
  EXPECT_EQ(report.refusal, "too many ranks");
  EXPECT_EQ(runs_of_processes, 0);
}

}  // namespace
}  // namespace shardproof
