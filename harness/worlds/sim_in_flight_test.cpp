// What must not happen to buffers and requests between post and wait.
#include <gtest/gtest.h>

#include "harness/worlds/sim_fixture.h"

namespace shardproof {
namespace {

// Rank 0 sends `going` to rank 1 and does `meanwhile` before it waits.
void send_and(Rank& rank, void (*meanwhile)(Rank& rank, const View& going)) {
  Communicator& ring = rank.along("cp");
  copy_forward(rank);
  Tensor buffer = rank.make(DType::kF32, {3});
  if (ring.rank() == 0) {
    rank.device().fill(buffer, 1);
    Request send = ring.start_send(buffer, 1, 0);
    meanwhile(rank, buffer);
    ring.wait(send);
  } else if (ring.rank() == 1) {
    ring.receive(buffer, 0, 0);
    rank.device().copy(buffer, rank.get("y").slice(0, 0, 1).reshaped({3}));
  }
}

void overwrites(Rank& rank) {
  send_and(rank, [](Rank&, const View& going) { going.set({1}, 2.5); });
}

TEST(SimInFlight, ASendBufferThatChangesIsFoundInEverySchedule) {
  for (std::uint64_t schedule = 0; schedule < 10; ++schedule) {
    const Outcome outcome =
        run_sim(fixture_case(cp_mesh(2), schedule), fixture_subject(&overwrites));
    const Finding finding = only_finding(outcome, Breach::kInFlightChanged);
    EXPECT_EQ(finding.rank, 0);
    EXPECT_EQ(finding.tensor, "a work tensor [3]");
    EXPECT_NE(finding.detail.find("send to rank 1 (tag 0, cp axis, forward): element 1 was 1 "
                                  "when it was posted and 2.5 before"),
              std::string::npos)
        << finding.detail;
  }
}

TEST(SimInFlight, TheScheduleDecidesWhichValueIsDelivered) {
  const auto delivered = [](std::uint64_t schedule) {
    const Outcome outcome =
        run_sim(fixture_case(cp_mesh(2), schedule, 2, 3), fixture_subject(&overwrites));
    return outcome.find("y")->got[4];
  };
  EXPECT_EQ(delivered(0), 1);    // read when it was posted
  EXPECT_EQ(delivered(1), 2.5);  // read as late as possible
}

TEST(SimInFlight, ReceivingIntoWhatIsBeingSentIsFound) {
  const auto forward = [](Rank& rank) {
    Communicator& ring = rank.along("cp");
    copy_forward(rank);
    Tensor buffer = rank.make(DType::kF32, {3});
    rank.device().fill(buffer, ring.rank());
    const int other = 1 - ring.rank();
    Request send = ring.start_send(buffer, other, 0);
    Request receive = ring.start_receive(buffer.view().slice(0, 1, 1).reshaped({1}), other, 1);
    Tensor answer = rank.make(DType::kF32, {3});
    Request take = ring.start_receive(answer, other, 0);
    Request give = ring.start_send(rank.get("x").slice(0, 0, 1).slice(1, 0, 1), other, 1);
    ring.wait(take);
    ring.wait(give);
    ring.wait(send);
    ring.wait(receive);
  };
  for (std::uint64_t schedule = 0; schedule < 6; ++schedule) {
    const Outcome outcome = run_sim(fixture_case(cp_mesh(2), schedule), fixture_subject(forward));
    EXPECT_EQ(outcome.ending, Ending::kCompleted) << text(outcome);
    ASSERT_EQ(outcome.findings.size(), 2u) << text(outcome);  // one a rank
    EXPECT_EQ(outcome.findings[0].breach, Breach::kInFlightChanged);
    EXPECT_NE(outcome.findings[0].detail.find("uses memory that is in flight: send to rank"),
              std::string::npos);
  }
}

TEST(SimInFlight, WritingToAReceiveBufferIsFound) {
  const auto forward = [](Rank& rank) {
    Communicator& ring = rank.along("cp");
    copy_forward(rank);
    if (ring.rank() == 0) ring.send(rank.get("x").slice(0, 0, 1), 1, 0);
    if (ring.rank() == 1) {
      Tensor buffer = rank.make(DType::kF32, {3});
      Request receive = ring.start_receive(buffer, 0, 0);
      buffer.view().set({2}, 0);
      ring.wait(receive);
    }
  };
  const Finding finding = only_finding(run_sim(fixture_case(cp_mesh(2)), fixture_subject(forward)),
                                       Breach::kInFlightChanged);
  EXPECT_EQ(finding.rank, 1);
  EXPECT_EQ(finding.detail,
            "receive from rank 0 (tag 0, cp axis, forward): element 2 was written before its wait "
            "returned");
}

TEST(SimInFlight, FreeingASendBufferIsFound) {
  const auto forward = [](Rank& rank) {
    Communicator& ring = rank.along("cp");
    copy_forward(rank);
    Request request;
    {
      Tensor buffer = rank.make(DType::kF32, {3});
      rank.device().fill(buffer, 1);
      if (ring.rank() == 0) request = ring.start_send(buffer, 1, 0);
      if (ring.rank() == 1) ring.receive(buffer, 0, 0);
    }
    if (ring.rank() == 0) ring.wait(request);
  };
  const Finding finding = only_finding(
      run_sim(fixture_case(cp_mesh(2), 1), fixture_subject(forward)), Breach::kInFlightChanged);
  EXPECT_NE(finding.detail.find("its tensor was freed before"), std::string::npos);
}

TEST(SimInFlight, ACollectiveOnABufferInFlightIsFound) {
  const auto forward = [](Rank& rank) {
    Communicator& ring = rank.along("cp");
    copy_forward(rank);
    Tensor buffer = rank.make(DType::kF32, {3});
    rank.device().fill(buffer, 1);
    Request request = ring.start_send(buffer, 1 - ring.rank(), 0);
    ring.all_reduce(buffer);
    Tensor other = rank.make(DType::kF32, {3});
    Request receive = ring.start_receive(other, 1 - ring.rank(), 0);
    ring.wait(request);
    ring.wait(receive);
  };
  const Outcome outcome = run_sim(fixture_case(cp_mesh(2)), fixture_subject(forward));
  ASSERT_EQ(outcome.findings.size(), 2u) << text(outcome);
  EXPECT_EQ(outcome.findings[0].detail,
            "all_reduce uses memory that is in flight: send to rank 1 (tag 0, cp axis, forward)");
}

TEST(SimInFlight, ARequestThatIsNeverWaitedForLeaks) {
  const auto forward = [](Rank& rank) {
    Communicator& ring = rank.along("cp");
    if (ring.rank() == 0) ring.start_send(rank.get("x"), 1, 5);
    copy_forward(rank);
    if (ring.rank() == 1) ring.receive(rank.get("y"), 0, 5);
  };
  const Finding finding = only_finding(
      run_sim(fixture_case(cp_mesh(2), 1, 6), fixture_subject(forward)), Breach::kLeakedRequest);
  EXPECT_EQ(finding.rank, 0);
  EXPECT_EQ(finding.tensor, "x");
  EXPECT_EQ(finding.detail, "send to rank 1 (tag 5, cp axis, forward) was never waited for");
}

TEST(SimInFlight, AMessageThatIsNeverReceivedLeaks) {
  const auto backward = [](Rank& rank) {
    copy_backward(rank);
    if (rank.index() == 1) rank.along("cp").send(rank.get("x"), 0, 6);
  };
  const Finding finding =
      only_finding(run_sim(fixture_case(cp_mesh(2), 0), fixture_subject(&copy_forward, backward)),
                   Breach::kLeakedRequest);
  EXPECT_EQ(finding.rank, 1);
  EXPECT_EQ(finding.detail, "send to rank 0 (tag 6, cp axis, backward) was never received");
}

TEST(SimInFlight, WaitingTwiceIsTheSubjectsFault) {
  const auto forward = [](Rank& rank) {
    Communicator& alone = rank.along("tp");
    Request send = alone.start_send(rank.get("x"), 0, 0);
    Request again = send;
    alone.receive(rank.get("y"), 0, 0);
    alone.wait(send);
    alone.wait(again);
  };
  const Outcome outcome = run_sim(fixture_case({}), fixture_subject(forward));
  EXPECT_EQ(outcome.ending, Ending::kThrew);
  EXPECT_EQ(outcome.message,
            "rank 0: wait for a request that is not outstanding after receive (tp axis, forward)");
}

}  // namespace
}  // namespace shardproof
