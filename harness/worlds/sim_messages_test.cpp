#include "harness/worlds/sim_messages.h"

#include <cmath>

#include "harness/model/element.h"
#include "harness/worlds/sim_fixture.h"

namespace shardproof {
namespace {

// Every rank's first token goes once round the ring; y is then the sum of all first tokens.
void ring_sum(Rank& rank, bool double_buffered) {
  Communicator& ring = rank.along("cp");
  const View x = rank.get("x").slice(0, 0, 1);
  const int next = (ring.rank() + 1) % ring.size();
  const int previous = (ring.rank() + ring.size() - 1) % ring.size();
  Tensor now = rank.make(x.dtype, x.shape);
  Tensor coming = rank.make(x.dtype, x.shape);
  Tensor sum = rank.make(x.dtype, x.shape);
  rank.device().copy(x, now);
  rank.device().fill(sum, 0);
  for (int step = 0; step < ring.size(); ++step) {
    const bool last = step + 1 == ring.size();
    Communicator::Exchange exchange;
    if (!last) exchange = ring.start_exchange(now, next, coming, previous, step);
    if (!last && !double_buffered) ring.wait(exchange);
    rank.device().add(now, sum);
    if (!last && double_buffered) ring.wait(exchange);
    std::swap(now, coming);
  }
  const View y = rank.get("y");
  for (Index token = 0; token < y.shape[0]; ++token) {
    rank.device().copy(sum, y.slice(0, token, 1));
  }
}

void ring_of_two_buffers(Rank& rank) { ring_sum(rank, true); }

TEST(SimMessages, RingExchangeDeliversEveryBlockInEverySchedule) {
  for (std::uint64_t schedule : {0, 1, 2, 3, 4, 5, 6, 7}) {
    Case value = fixture_case(cp_mesh(5), schedule, 11, 3);
    value.problem.dtype = DType::kF64;
    value.problem.data = DataRecipe::kInteger;
    const Outcome outcome = run_sim(value, fixture_subject(&ring_of_two_buffers));
    expect_clean(outcome);
    const auto x = whole_tensor(value.problem, fixture_tensors(value.problem)[0]);
    for (Index feature = 0; feature < 3; ++feature) {
      double want = 0;
      for (Index rank = 0; rank < 5; ++rank) {
        want += x[static_cast<std::size_t>(even_part(11, 5, rank).first * 3 + feature)];
      }
      for (Index token = 0; token < 11; ++token) {
        EXPECT_EQ(outcome.find("y")->got[static_cast<std::size_t>(token * 3 + feature)], want);
      }
    }
  }
}

// Adding what is still coming is the fault that double buffering invites.
void adds_before_waiting(Rank& rank) {
  Communicator& ring = rank.along("cp");
  const View x = rank.get("x").slice(0, 0, 1);
  Tensor coming = rank.make(x.dtype, x.shape);
  Tensor sum = rank.make(x.dtype, x.shape);
  const int next = (ring.rank() + 1) % ring.size();
  const int previous = (ring.rank() + ring.size() - 1) % ring.size();
  Communicator::Exchange exchange = ring.start_exchange(x, next, coming, previous, 0);
  rank.device().copy(x, sum);
  rank.device().add(coming, sum);
  ring.wait(exchange);
  copy_forward(rank);
  rank.device().copy(sum, rank.get("y").slice(0, 0, 1));
}

TEST(SimMessages, AReceiveBufferIsNanUntilItsWaitReturns) {
  for (std::uint64_t schedule : {0, 1, 2, 3}) {
    const Outcome outcome =
        run_sim(fixture_case(cp_mesh(2), schedule), fixture_subject(&adds_before_waiting));
    ASSERT_EQ(outcome.ending, Ending::kCompleted) << text(outcome);
    EXPECT_TRUE(std::isnan(outcome.find("y")->got[0]));
    EXPECT_FALSE(std::isnan(outcome.find("y")->got[3]));
  }
}

TEST(SimMessages, MessagesMatchByTagAndNotByArrival) {
  const auto forward = [](Rank& rank) {
    Communicator& ring = rank.along("cp");
    const View x = rank.get("x");
    const View y = rank.get("y");
    copy_forward(rank);
    if (ring.rank() == 0) {
      Request first = ring.start_send(x.slice(0, 0, 1), 1, 8);
      Request second = ring.start_send(x.slice(0, 1, 1), 1, 9);
      Request third = ring.start_send(x.slice(0, 2, 1), 1, 9);
      ring.wait(third);
      ring.wait(second);
      ring.wait(first);
    } else {
      Request nine = ring.start_receive(y.slice(0, 0, 1), 0, 9);
      Request eight = ring.start_receive(y.slice(0, 1, 1), 0, 8);
      Request nine_again = ring.start_receive(y.slice(0, 2, 1), 0, 9);
      ring.wait(nine);
      ring.wait(nine_again);
      ring.wait(eight);
    }
  };
  for (std::uint64_t schedule = 0; schedule < 8; ++schedule) {
    const Case value = fixture_case(cp_mesh(2), schedule, 6, 1);
    const Outcome outcome = run_sim(value, fixture_subject(forward));
    expect_clean(outcome);
    const std::vector<double>& y = outcome.find("y")->got;
    EXPECT_EQ(y[3], y[1]);
    EXPECT_EQ(y[4], y[0]);
    EXPECT_EQ(y[5], y[2]);
  }
}

void send_first_ring(Rank& rank) {
  Communicator& ring = rank.along("cp");
  Tensor coming = rank.make(DType::kF32, {2});
  Tensor going = rank.make(DType::kF32, {2});
  rank.device().fill(going, 1);
  ring.send(going, (ring.rank() + 1) % ring.size(), 4);
  ring.receive(coming, (ring.rank() + ring.size() - 1) % ring.size(), 4);
  copy_forward(rank);
}

TEST(SimMessages, ARingThatNeedsBufferingDeadlocksInTheStrictSchedule) {
  expect_clean(run_sim(fixture_case(cp_mesh(3), 0), fixture_subject(&send_first_ring)));
  const Outcome outcome = run_sim(fixture_case(cp_mesh(3), 1), fixture_subject(&send_first_ring));
  EXPECT_EQ(outcome.ending, Ending::kDeadlocked);
  EXPECT_EQ(outcome.message,
            "no rank can go on: rank 0 waits to send to rank 1 (tag 4, cp axis, forward); "
            "rank 1 waits to send to rank 2 (tag 4, cp axis, forward); "
            "rank 2 waits to send to rank 0 (tag 4, cp axis, forward)");
  EXPECT_TRUE(outcome.tensors.empty());
}

TEST(SimMessages, RandomSchedulesFindTheRingThatNeedsBuffering) {
  int found = 0;
  for (std::uint64_t schedule = 2; schedule < 102; ++schedule) {
    const Outcome outcome =
        run_sim(fixture_case(cp_mesh(16), schedule), fixture_subject(&send_first_ring));
    if (outcome.ending == Ending::kDeadlocked) ++found;
  }
  EXPECT_GE(found, 12);  // every send must wait: one schedule in four
  EXPECT_LE(found, 45);
}

TEST(SimMessages, ADifferentTagIsADeadlockThatShowsBothTags) {
  const auto forward = [](Rank& rank) {
    Communicator& ring = rank.along("cp");
    if (ring.rank() == 0) ring.send(rank.get("x"), 1, 1);
    if (ring.rank() == 1) ring.receive(rank.get("y"), 0, 2);
    copy_forward(rank);
  };
  const Outcome outcome = run_sim(fixture_case(cp_mesh(2), 1), fixture_subject(forward));
  EXPECT_EQ(outcome.ending, Ending::kDeadlocked);
  EXPECT_EQ(outcome.message,
            "no rank can go on: rank 0 waits to send to rank 1 (tag 1, cp axis, forward); "
            "rank 1 waits to receive from rank 0 (tag 2, cp axis, forward)");
}

TEST(SimMessages, WaitingForARankThatHasFinishedSaysSo) {
  const auto backward = [](Rank& rank) {
    if (rank.index() == 2) rank.along("cp").receive(rank.get("dx"), 1, 0);
    copy_backward(rank);
  };
  const Outcome outcome =
      run_sim(fixture_case(cp_mesh(3)), fixture_subject(&copy_forward, backward));
  EXPECT_EQ(outcome.ending, Ending::kDeadlocked);
  EXPECT_EQ(outcome.message,
            "no rank can go on: rank 2 waits to receive from rank 1 (tag 0, cp axis, backward); "
            "rank 1 has finished");
}

TEST(SimMessages, ALongWaitForGraphIsShortened) {
  const Outcome outcome =
      run_sim(fixture_case(cp_mesh(64), 1, 64), fixture_subject(&send_first_ring));
  EXPECT_EQ(outcome.ending, Ending::kDeadlocked);
  EXPECT_NE(outcome.message.find("rank 7 waits to send to rank 8"), std::string::npos);
  EXPECT_EQ(outcome.message.find("rank 8 waits"), std::string::npos);
  EXPECT_NE(outcome.message.find("; 56 more wait"), std::string::npos);
}

TEST(SimMessages, DifferentCountsNameBothRanks) {
  const auto forward = [](Rank& rank) {
    Communicator& ring = rank.along("cp");
    if (ring.rank() == 0) ring.send(rank.get("x").slice(0, 0, 2), 1, 3);
    if (ring.rank() == 1) ring.receive(rank.get("y").slice(0, 0, 1), 0, 3);
    copy_forward(rank);
  };
  for (std::uint64_t schedule : {0, 1, 2, 3}) {
    const Outcome outcome = run_sim(fixture_case(cp_mesh(2), schedule), fixture_subject(forward));
    EXPECT_EQ(outcome.ending, Ending::kMismatched);
    EXPECT_EQ(outcome.message,
              "rank 0 sends 6 f32 elements to rank 1 (tag 3, cp axis, forward), which receives "
              "3 f32 elements (forward)");
  }
}

TEST(SimMessages, DifferentTypesOfOneSizeAreAMismatch) {
  const auto forward = [](Rank& rank) {
    Tensor wide = rank.make(DType::kBf16, {2});
    Tensor other = rank.make(DType::kF16, {2});
    rank.device().fill(wide, 1);
    if (rank.index() == 0) rank.along("cp").send(wide, 1, 0);
    if (rank.index() == 1) rank.along("cp").receive(other, 0, 0);
  };
  const Outcome outcome = run_sim(fixture_case(cp_mesh(2)), fixture_subject(forward));
  EXPECT_EQ(outcome.ending, Ending::kMismatched);
  EXPECT_NE(outcome.message.find("2 bf16 elements"), std::string::npos);
  EXPECT_NE(outcome.message.find("2 f16 elements"), std::string::npos);
}

TEST(SimMessages, ARingOfOneExchangesWithItself) {
  const auto forward = [](Rank& rank) {
    Communicator& alone = rank.along("tp");
    EXPECT_EQ(alone.size(), 1);
    EXPECT_EQ(alone.rank(), 0);
    Communicator::Exchange exchange = alone.start_exchange(rank.get("x"), 0, rank.get("y"), 0, 0);
    alone.wait(exchange);
  };
  for (std::uint64_t schedule : {0, 1, 2}) {
    const Outcome outcome = run_sim(fixture_case(cp_mesh(3), schedule), fixture_subject(forward));
    expect_clean(outcome);
    ASSERT_EQ(outcome.trace.size(), 6u);
    EXPECT_EQ(outcome.trace[0].axis, "tp");
    EXPECT_EQ(outcome.trace[0].peer, 0);
  }
}

}  // namespace
}  // namespace shardproof
