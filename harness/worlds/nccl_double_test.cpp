// What the simulated world does when devices move the data, here those over doubles.
#include <algorithm>

#include "harness/model/require.h"
#include "harness/worlds/sim_fixture.h"

namespace shardproof {
namespace {

Outcome run_in(std::string_view world, Case value, const Subject& subject) {
  value.placement.world = world;
  value.placement.device = "cuda-double";
  for (const WorldEntry& entry : all_worlds()) {
    if (entry.name == world) return entry.make(all_devices())->run(value, subject, {});
  }
  throw std::logic_error("no such world");
}

// What each rank's rows of `tensor` hold, where they hold one number.
std::vector<double> rows_of_ranks(const Outcome& outcome, std::string_view tensor, int ranks) {
  std::vector<double> result;
  const Gathered* gathered = outcome.find(tensor);
  if (gathered == nullptr) return result;
  for (int r = 0; r < ranks; ++r) {
    result.push_back(gathered->got[gathered->got.size() / static_cast<std::size_t>(ranks) *
                                   static_cast<std::size_t>(r)]);
  }
  return result;
}

Tensor filled(Rank& rank, double value) {
  Tensor tensor = rank.make(DType::kF32, {rank.get("y").shape[1]});
  rank.device().fill(tensor, value);
  return tensor;
}

// y = what came, in every row
void store_in_y(Rank& rank, const View& row) {
  rank.device().fill(rank.get("y"), 0);
  rank.device().add_row(row, rank.get("y"));
}

int next(const Communicator& ring) { return (ring.rank() + 1) % ring.size(); }
int previous(const Communicator& ring) { return (ring.rank() + ring.size() - 1) % ring.size(); }

// Nothing is freed or waited for between the computation and the transfer.
void pass_on(Rank& rank) {
  Communicator& ring = rank.along("cp");
  const Tensor mine = filled(rank, rank.index());
  const Tensor got = filled(rank, -1);
  rank.device().add(mine, mine);
  auto exchange = ring.start_exchange(mine, next(ring), got, previous(ring), 0);
  ring.wait(exchange);
  store_in_y(rank, got);
}

TEST(DeviceTransfers, SendWhatWasComputedJustBefore) {
  for (std::string_view world : {"sim", "nccl-double"}) {
    for (std::uint64_t schedule : {0, 1, 2, 77}) {
      const Outcome outcome =
          run_in(world, fixture_case(cp_mesh(3), schedule, 6), fixture_subject(&pass_on));
      expect_clean(outcome);
      EXPECT_EQ(rows_of_ranks(outcome, "y", 3), (std::vector<double>{4, 0, 2})) << world;
    }
  }
}

void overwrite_in_flight(Rank& rank) {
  Communicator& ring = rank.along("cp");
  const Tensor mine = filled(rank, rank.index());
  const Tensor got = filled(rank, -1);
  auto exchange = ring.start_exchange(mine, next(ring), got, previous(ring), 0);
  rank.device().fill(mine, 9);
  ring.wait(exchange);
  store_in_y(rank, got);
}

TEST(DeviceTransfers, ShowABufferThatIsOverwrittenInFlight) {
  const Outcome outcome =
      run_in("nccl-double", fixture_case(cp_mesh(3), 0, 6), fixture_subject(&overwrite_in_flight));
  expect_clean(outcome);
  const std::vector<double> got = rows_of_ranks(outcome, "y", 3);
  EXPECT_GE(std::count(got.begin(), got.end(), 9), 1);
}

void sum_and_spread(Rank& rank) {
  Communicator& ring = rank.along("cp");
  const Tensor sum = filled(rank, 1 + rank.index());
  ring.all_reduce(sum);
  const Tensor mine = filled(rank, rank.index());
  ring.broadcast(mine, 2);
  rank.device().add(mine, sum);
  ring.barrier();
  rank.along("tp").all_reduce(sum);  // a group of one
  store_in_y(rank, sum);
}

TEST(DeviceTransfers, MakeCollectivesBetweenEarlierAndLaterWork) {
  const Outcome outcome =
      run_in("nccl-double", fixture_case(cp_mesh(3), 5, 6), fixture_subject(&sum_and_spread));
  expect_clean(outcome);
  EXPECT_EQ(rows_of_ranks(outcome, "y", 3), (std::vector<double>{8, 8, 8}));
}

// Right where sends are buffered, as schedule 0 has them; on a device each waits for the other.
void send_then_receive(Rank& rank) {
  Communicator& ring = rank.along("cp");
  const Tensor mine = filled(rank, 1);
  const Tensor got = filled(rank, -1);
  ring.send(mine, next(ring), 0);
  ring.receive(got, previous(ring), 0);
  store_in_y(rank, got);
}

TEST(DeviceTransfers, ThatWaitForEachOtherAreADeadlock) {
  const Case value = fixture_case(cp_mesh(3), 0, 6);
  const Subject subject = fixture_subject(&send_then_receive);
  expect_clean(run_in("sim", value, subject));
  const Outcome outcome = run_in("nccl-double", value, subject);
  EXPECT_EQ(outcome.ending, Ending::kDeadlocked) << text(outcome);
  EXPECT_NE(outcome.message.find("waits for its device, which waits for other ranks"),
            std::string::npos)
      << outcome.message;
}

void disagree(Rank& rank) {
  const Tensor mine = rank.make(DType::kF32, {2 + rank.index()});
  rank.device().fill(mine, 1);
  rank.along("cp").all_reduce(mine);
}

void leak(Rank& rank) {
  copy_forward(rank);
  Communicator& ring = rank.along("cp");
  ring.start_send(rank.get("x"), next(ring), 0);
  ring.launch();
}

TEST(DeviceTransfers, LeaveNothingBehindThatHarmsTheNextRun) {
  const Case value = fixture_case(cp_mesh(3), 0, 6);
  std::unique_ptr<World> world;
  for (const WorldEntry& entry : all_worlds()) {
    if (entry.name == "nccl-double") world = entry.make(all_devices());
  }
  const auto run = [&](void (*forward)(Rank&)) {
    Case here = value;
    here.placement.world = "nccl-double";
    here.placement.device = "cuda-double";
    return world->run(here, fixture_subject(forward), {});
  };
  for (auto bad : {&send_then_receive, &disagree, &leak}) {
    const Outcome outcome = run(bad);
    EXPECT_TRUE(outcome.ending != Ending::kCompleted || !outcome.findings.empty());
    const Outcome good = run(&pass_on);
    expect_clean(good);
    EXPECT_EQ(rows_of_ranks(good, "y", 3), (std::vector<double>{4, 0, 2}));
  }
  EXPECT_EQ(run(&disagree).message.find("in all_reduce (cp axis, forward) rank "), 0u);
  const Outcome leaked = run(&leak);
  EXPECT_EQ(leaked.findings.size(), 3u) << text(leaked);
}

TEST(DeviceTransfers, WantADeviceThatHasThem) {
  Case value = fixture_case(cp_mesh(2));
  value.placement.world = "nccl-double";
  for (const WorldEntry& entry : all_worlds()) {
    if (entry.name != "nccl-double") continue;
    EXPECT_EQ(entry.device, "cuda-double");
    EXPECT_THROW(entry.make(all_devices())->run(value, fixture_subject(&pass_on), {}), Error);
  }
}

}  // namespace
}  // namespace shardproof
