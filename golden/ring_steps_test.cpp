#include "golden/ring_steps.h"

#include <gtest/gtest.h>

#include "golden/sample_tables_test.h"

namespace shardproof {
namespace {

Case parse(const std::string& text) { return parse_case(text, sample_tables().vocabulary()); }

const std::string kProblem =
    "attention batch=1 heads=2 q=8 kv=8 dim=4 mask=causal dtype=f32 data=normal seed=1 | ";

Case on_ring(const std::string& layout) {
  return parse(kProblem + "ring_attention world=sim device=cpu mesh=tp:2,cp:4 layout=" + layout +
               " schedule=0");
}

// A message that rank `rank` got from rank `peer` along cp.
Trace received(int rank, int peer) {
  return {{.rank = rank, .operation = "send", .axis = "cp", .peer = 7},
          {.rank = rank, .operation = "receive", .axis = "tp", .peer = 3},
          {.rank = rank, .operation = "receive", .axis = "cp", .peer = peer}};
}

TEST(RingSteps, OfAQueryNameTheBlocksItMet) {
  const std::string steps = ring_steps(on_ring("contiguous"), received(1, 0), "out", 0, 5);
  EXPECT_EQ(steps,
            "cp rank 2 owns this query; it met step 0: block of 2 (2 keys, 2 visible), "
            "step 1: block of 1 (2 keys, 2 visible), step 2: block of 0 (2 keys, 2 visible), "
            "step 3: block of 3 (2 keys, 0 visible)");
}

TEST(RingSteps, FollowTheDirectionOfTheTrace) {
  const std::string steps = ring_steps(on_ring("contiguous"), received(4, 5), "dq", 0, 5);
  EXPECT_NE(steps.find("step 1: block of 3 (2 keys, 0 visible)"), std::string::npos) << steps;
}

TEST(RingSteps, FollowTheLayout) {
  const std::string steps = ring_steps(on_ring("zigzag"), received(1, 0), "lse", 0, 5);
  EXPECT_NE(steps.find("cp rank 2 owns this query"), std::string::npos) << steps;
  EXPECT_NE(steps.find("step 1: block of 1 (2 keys, 1 visible)"), std::string::npos) << steps;
}

TEST(RingSteps, OfAKeyNameTheRanksThatMetItsBlock) {
  EXPECT_EQ(ring_steps(on_ring("striped"), received(1, 0), "dv", 0, 7),
            "cp rank 3 owns this key; its block was met in step 0: rank 3, step 1: rank 0, "
            "step 2: rank 1, step 3: rank 2");
}

TEST(RingSteps, AreSilentWithoutARing) {
  const Case value = on_ring("striped");
  EXPECT_EQ(ring_steps(value, {}, "dv", 0, 7), "");
  EXPECT_EQ(ring_steps(value, received(1, 0), "dv", 0, 8), "");
  const Case other = parse(
      "mlp tokens=3 features=2 hidden=2 outputs=2 activation=relu dtype=f32 data=normal seed=1 | "
      "ring_attention world=sim device=cpu mesh=cp:2 layout=contiguous schedule=0");
  EXPECT_EQ(ring_steps(other, received(1, 0), "y", 0, 0), "");
}

}  // namespace
}  // namespace shardproof
