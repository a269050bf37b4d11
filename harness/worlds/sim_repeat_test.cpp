// That a run is a function of its case, what virtual time says, and what many ranks and many runs
// cost.
#include <malloc.h>

#include <chrono>

#include "harness/worlds/sim_fixture.h"

namespace shardproof {
namespace {

// A ring step per rank, double-buffered, with some arithmetic; then an all-reduce of the sum.
void ring_and_reduce(Rank& rank) {
  Communicator& ring = rank.along("cp");
  const View x = rank.get("x");
  const int next = (ring.rank() + 1) % ring.size();
  const int previous = (ring.rank() + ring.size() - 1) % ring.size();
  Tensor now = rank.make(DType::kF64, {1});
  Tensor coming = rank.make(DType::kF64, {1});
  Tensor sum = rank.make(DType::kF64, {1});
  rank.device().fill(now, x.elements() > 0 ? x.at(0) : 0);
  rank.device().fill(sum, 0);
  for (int step = 1; step < ring.size(); ++step) {
    Communicator::Exchange exchange = ring.start_exchange(now, next, coming, previous, 0);
    rank.device().add(now, sum);
    ring.wait(exchange);
    std::swap(now, coming);
  }
  ring.all_reduce(sum);
  copy_forward(rank);
  if (x.elements() > 0) rank.get("y").put(0, sum.view().at(0));
}

bool same(const Event& a, const Event& b) {
  return a.rank == b.rank && a.phase == b.phase && a.operation == b.operation && a.axis == b.axis &&
         a.peer == b.peer && a.bytes == b.bytes && a.start == b.start && a.end == b.end;
}

void expect_same(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(text(a), text(b));
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t t = 0; t < a.tensors.size(); ++t) {
    EXPECT_EQ(a.tensors[t].got, b.tensors[t].got);
  }
  ASSERT_EQ(a.trace.size(), b.trace.size());
  for (std::size_t i = 0; i < a.trace.size(); ++i) EXPECT_TRUE(same(a.trace[i], b.trace[i]));
  ASSERT_EQ(a.ranks.size(), b.ranks.size());
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    EXPECT_EQ(a.ranks[r].finished_at, b.ranks[r].finished_at);
    EXPECT_EQ(a.ranks[r].peak_bytes, b.ranks[r].peak_bytes);
    EXPECT_EQ(a.ranks[r].traffic, b.ranks[r].traffic);
  }
}

TEST(SimRepeat, TheSameCaseGivesTheSameOutcomeWhateverRanBefore) {
  const Case value = fixture_case(cp_mesh(6), 0x77, 13, 3);
  const Outcome fresh = run_sim(value, fixture_subject(&ring_and_reduce));
  expect_clean(fresh);
  auto world = make_sim();
  for (int ranks : {1, 9, 4}) {
    world->run(fixture_case(cp_mesh(ranks), 1, 5, 2), fixture_subject(&ring_and_reduce), {});
  }
  expect_same(world->run(value, fixture_subject(&ring_and_reduce), {}), fresh);
  expect_same(world->run(value, fixture_subject(&ring_and_reduce), {}), fresh);
}

TEST(SimRepeat, ACorrectProgramDoesNotDependOnTheSchedule) {
  auto world = make_sim();
  Case value = fixture_case(cp_mesh(6), 0, 13, 3);
  const Outcome plain = world->run(value, fixture_subject(&ring_and_reduce), {});
  for (value.placement.schedule = 1; value.placement.schedule < 40; ++value.placement.schedule) {
    expect_same(world->run(value, fixture_subject(&ring_and_reduce), {}), plain);
  }
}

TEST(SimRepeat, AFaultyProgramRepeatsExactly) {
  // Whoever comes first wins: the order depends on the schedule, and on nothing else.
  const auto forward = [](Rank& rank) {
    copy_forward(rank);
    Communicator& ring = rank.along("cp");
    Tensor token = rank.make(DType::kF32, {1});
    rank.device().fill(token, 1);
    Request request = ring.start_send(token, 1 - ring.rank(), 0);
    token.view().put(0, 2 + ring.rank());
    Tensor got = rank.make(DType::kF32, {1});
    ring.receive(got, 1 - ring.rank(), 0);
    rank.get("y").put(0, got.view().at(0));
    ring.wait(request);
  };
  auto world = make_sim();
  for (std::uint64_t schedule = 2; schedule < 20; ++schedule) {
    const Case value = fixture_case(cp_mesh(2), schedule);
    const Outcome first = world->run(value, fixture_subject(forward), {});
    expect_same(world->run(value, fixture_subject(forward), {}), first);
    EXPECT_EQ(first.findings.size(), 2u);
  }
}

TEST(SimRepeat, TheTraceIsOptionalAndItsSumIsNot) {
  const Case value = fixture_case(cp_mesh(4), 3);
  const Outcome full = run_sim(value, fixture_subject(&ring_and_reduce));
  const Outcome lean = run_sim(value, fixture_subject(&ring_and_reduce), {.keep_trace = false});
  EXPECT_EQ(full.trace.size(), 4u * (3 + 3 + 1));
  EXPECT_TRUE(lean.trace.empty());
  ASSERT_EQ(full.ranks[1].traffic.size(), 3u);
  EXPECT_EQ(full.ranks[1].traffic[0], (Traffic{Phase::kForward, "receive", "cp", 3, 24}));
  EXPECT_EQ(lean.ranks[1].traffic, full.ranks[1].traffic);
}

const VirtualTime kTime;

// Sends `elements` from rank 0 to rank 1 while both do a product of 10^7 multiply-adds.
void overlapping(Rank& rank, bool overlaps) {
  Communicator& ring = rank.along("cp");
  Tensor data = rank.make(DType::kF32, {250000});
  rank.device().fill(data, 1);
  Request request = ring.rank() == 0 ? ring.start_send(data, 1, 0) : ring.start_receive(data, 0, 0);
  if (!overlaps) ring.wait(request);
  rank.device().meter().multiply_adds += 1e7;
  if (overlaps) ring.wait(request);
  copy_forward(rank);
}

TEST(SimRepeat, ATransferBesideAProductCostsTheLongerOfTheTwo) {
  const double product = 1e7 / kTime.multiply_adds_per_second;
  const double transfer = kTime.latency_seconds + 1e6 / kTime.bytes_per_second;
  const Case value = fixture_case(cp_mesh(2), 1);
  const Outcome hidden =
      run_sim(value, fixture_subject([](Rank& rank) { overlapping(rank, true); }));
  const Outcome exposed =
      run_sim(value, fixture_subject([](Rank& rank) { overlapping(rank, false); }));
  EXPECT_DOUBLE_EQ(hidden.ranks[1].finished_at, product);
  EXPECT_DOUBLE_EQ(exposed.ranks[1].finished_at, product + transfer);
  EXPECT_DOUBLE_EQ(exposed.ranks[1].exposed_seconds, transfer);
  EXPECT_DOUBLE_EQ(hidden.ranks[1].exposed_seconds, 0);
  EXPECT_DOUBLE_EQ(exposed.ranks[1].meter.seconds, product);
  EXPECT_DOUBLE_EQ(exposed.trace[1].start, 0);
  EXPECT_DOUBLE_EQ(exposed.trace[1].end, transfer);
}

TEST(SimRepeat, TransfersOfOneAxisQueueForItsLink) {
  const auto forward = [](Rank& rank) {
    Communicator& ring = rank.along("cp");
    Tensor data = rank.make(DType::kF32, {2, 250000});
    rank.device().fill(data, 1);
    std::vector<Request> requests;
    for (int i = 0; i < 2; ++i) {
      const View half = data.view().select(0, i);
      requests.push_back(ring.rank() == 0 ? ring.start_send(half, 1, i)
                                          : ring.start_receive(half, 0, i));
    }
    for (Request& request : requests) ring.wait(request);
    copy_forward(rank);
  };
  const Outcome outcome = run_sim(fixture_case(cp_mesh(2)), fixture_subject(forward));
  expect_clean(outcome);
  EXPECT_DOUBLE_EQ(outcome.ranks[1].finished_at,
                   kTime.latency_seconds + 2e6 / kTime.bytes_per_second);
}

TEST(SimRepeat, AnAllReduceEndsForAllWhenTheLastHasCome) {
  const auto forward = [](Rank& rank) {
    rank.device().meter().multiply_adds += rank.index() * 1e6;
    Tensor data = rank.make(DType::kF32, {300});
    rank.device().fill(data, 1);
    rank.along("cp").all_reduce(data);
    copy_forward(rank);
  };
  const Outcome outcome = run_sim(fixture_case(cp_mesh(3)), fixture_subject(forward));
  const double want = 2e6 / kTime.multiply_adds_per_second + kTime.all_reduce(3, 1200);
  for (const RankFacts& rank : outcome.ranks) EXPECT_DOUBLE_EQ(rank.finished_at, want);
  EXPECT_DOUBLE_EQ(kTime.all_reduce(3, 1200),
                   4 * kTime.latency_seconds + 4 * 400 / kTime.bytes_per_second);
}

TEST(SimRepeat, AThousandRanksRunInSeconds) {
  const auto started = std::chrono::steady_clock::now();
  const Outcome outcome = run_sim(fixture_case(cp_mesh(1024), 0, 1100, 2),
                                  fixture_subject(&ring_and_reduce), {.keep_trace = false});
  expect_clean(outcome);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
  EXPECT_LT(seconds.count(), 60);  // well below ten on a quiet machine and without sanitizers
  EXPECT_EQ(outcome.ranks.size(), 1024u);
}

TEST(SimRepeat, MemoryDoesNotGrowFromRunToRun) {
  auto world = make_sim();
  const auto run_some = [&] {
    for (int i = 0; i < 300; ++i) {
      const int ranks = 1 + i % 7;
      const auto schedule = static_cast<std::uint64_t>(i % 11);
      const Case value = fixture_case(cp_mesh(ranks), schedule, 1 + i % 40, 1 + i % 5);
      world->run(value, fixture_subject(&ring_and_reduce), {});
      // Runs that end early must give everything back, too.
      world->run(value, fixture_subject([](Rank& rank) {
                   Tensor lost = rank.make(DType::kF32, {100});
                   rank.along("cp").start_receive(lost, 0, 99);
                   if (rank.index() == 0) rank.along("cp").receive(lost, 0, 98);
                 }),
                 {});
    }
    return mallinfo2().uordblks;
  };
  run_some();
  const auto before = run_some();
  EXPECT_LE(run_some(), before + 4096);
}

}  // namespace
}  // namespace shardproof
