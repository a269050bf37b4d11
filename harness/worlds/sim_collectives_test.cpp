#include "harness/worlds/sim_collectives.h"

#include <array>
#include <cmath>
#include <limits>

#include "harness/worlds/reductions.h"
#include "harness/worlds/sim_fixture.h"

namespace shardproof {
namespace {

Mesh tp_cp() { return Mesh{{{"tp", 2}, {"cp", 3}}}; }
Mesh cp_tp() { return Mesh{{{"cp", 3}, {"tp", 2}}}; }

// A tensor of `count` copies of `value`.
Tensor filled(Rank& rank, Index count, double value) {
  Tensor tensor = rank.make(DType::kF32, {count});
  rank.device().fill(tensor, value);
  return tensor;
}

void expect_all(const View& view, double want) {
  for (Index i = 0; i < view.elements(); ++i) EXPECT_EQ(view.at(i), want);
}

// Along both axes: what arrives must come from the ranks of the group, in its order.
void use_every_collective(Rank& rank) {
  for (const char* axis : {"tp", "cp"}) {
    Communicator& group = rank.along(axis);
    const std::vector<int> members = rank.mesh().group(rank.index(), axis);
    ASSERT_EQ(group.size(), static_cast<int>(members.size()));
    ASSERT_EQ(members[static_cast<std::size_t>(group.rank())], rank.index());
    double total = 0;
    for (int member : members) total += member;

    Tensor sum = filled(rank, 4, rank.index());
    group.all_reduce(sum);
    expect_all(sum, total);

    std::vector<Tensor> gathered, scattered, received;
    std::vector<View> into, from, taken;
    for (int i = 0; i < group.size(); ++i) {
      gathered.push_back(rank.make(DType::kF32, {i + 1}));  // counts differ between ranks
      scattered.push_back(filled(rank, i, 10 * rank.index() + i));
      received.push_back(rank.make(DType::kF32, {group.rank()}));
      into.push_back(gathered.back());
      from.push_back(scattered.back());
      taken.push_back(received.back());
    }
    Tensor mine = filled(rank, group.rank() + 1, rank.index());
    group.all_gather(mine, into);
    for (int i = 0; i < group.size(); ++i)
      expect_all(into[static_cast<std::size_t>(i)], members[static_cast<std::size_t>(i)]);

    Tensor reduced = rank.make(DType::kF32, {group.rank()});
    group.reduce_scatter(from, reduced);
    expect_all(reduced, 10 * total + group.rank() * group.size());

    group.all_to_all(from, taken);
    for (int i = 0; i < group.size(); ++i) {
      expect_all(taken[static_cast<std::size_t>(i)],
                 10 * members[static_cast<std::size_t>(i)] + group.rank());
    }

    Tensor news = filled(rank, 2, rank.index());
    group.broadcast(news, group.size() - 1);
    expect_all(news, members.back());
    group.barrier();
  }
  copy_forward(rank);
}

TEST(SimCollectives, EveryCollectiveWorksOnBothAxesOfBothMeshOrders) {
  for (const Mesh& mesh : {tp_cp(), cp_tp()}) {
    for (std::uint64_t schedule : {0, 1, 2, 3, 4}) {
      const Outcome outcome =
          run_sim(fixture_case(mesh, schedule), fixture_subject(&use_every_collective));
      expect_clean(outcome);
      EXPECT_EQ(outcome.trace.size(), 6u * 2 * 6);
    }
  }
}

TEST(SimCollectives, TheTraceCountsWhatARankHandsIn) {
  const Outcome outcome = run_sim(fixture_case(tp_cp()), fixture_subject(&use_every_collective));
  // The last rank: coordinate 1 of 2 along tp, 2 of 3 along cp.
  const auto bytes = [&](std::string_view operation, std::string_view axis) {
    for (const Traffic& traffic : outcome.ranks[5].traffic) {
      if (traffic.operation == operation && traffic.axis == axis) {
        EXPECT_EQ(traffic.calls, 1);
        return traffic.bytes;
      }
    }
    return Index{-1};
  };
  EXPECT_EQ(bytes("all_reduce", "cp"), 4 * 4);
  EXPECT_EQ(bytes("all_gather", "tp"), 4 * 2);
  EXPECT_EQ(bytes("all_gather", "cp"), 4 * 3);
  EXPECT_EQ(bytes("reduce_scatter", "cp"), 4 * (0 + 1 + 2));
  EXPECT_EQ(bytes("all_to_all", "cp"), 4 * (0 + 1));  // what it keeps is not counted
  EXPECT_EQ(bytes("all_to_all", "tp"), 0);
  EXPECT_EQ(bytes("broadcast", "tp"), 4 * 2);
  EXPECT_EQ(bytes("barrier", "cp"), 0);
}

TEST(SimCollectives, TheMaximumIsThatOfTheGroupAndNanIsNeverLost) {
  const auto forward = [](Rank& rank) {
    Communicator& cp = rank.along("cp");
    for (DType dtype : {DType::kF64, DType::kF32, DType::kTf32, DType::kBf16, DType::kF16}) {
      Tensor largest = rank.make(dtype, {4});
      const View& view = largest.view();
      view.put(0, cp.rank() == 1 ? 7 : -3);
      view.put(1, -8 * cp.rank() - 2);
      view.put(2, -std::numeric_limits<double>::infinity());
      view.put(3, cp.rank() == 1 ? std::nan("") : cp.rank());
      cp.all_reduce_maximum(largest);
      EXPECT_EQ(view.at(0), 7);
      EXPECT_EQ(view.at(1), -2);
      EXPECT_EQ(view.at(2), -std::numeric_limits<double>::infinity());
      EXPECT_TRUE(std::isnan(view.at(3)));
    }
    copy_forward(rank);
  };
  for (std::uint64_t schedule : {0, 1, 2}) {
    const Outcome outcome = run_sim(fixture_case(cp_mesh(3), schedule), fixture_subject(forward));
    expect_clean(outcome);
    const Traffic& traffic = outcome.ranks[2].traffic.at(0);
    EXPECT_EQ(traffic.operation, "all_reduce_maximum");
    EXPECT_EQ(traffic.calls, 5);
    EXPECT_EQ(traffic.bytes, 4 * (8 + 4 + 4 + 2 + 2));
  }
}

TEST(SimCollectives, ASumAndAMaximumDoNotMeet) {
  const auto forward = [](Rank& rank) {
    Tensor tensor = filled(rank, 2, 1);
    Communicator& cp = rank.along("cp");
    cp.rank() == 0 ? cp.all_reduce(tensor) : cp.all_reduce_maximum(tensor);
  };
  const Outcome outcome = run_sim(fixture_case(cp_mesh(2)), fixture_subject(forward));
  EXPECT_EQ(outcome.ending, Ending::kMismatched);
  EXPECT_NE(outcome.message.find("all_reduce_maximum"), std::string::npos) << outcome.message;
}

TEST(SimCollectives, SumsAreRoundedAtEachAdditionInTheOrderOfTheGroup) {
  const auto forward = [](Rank& rank) {
    // 256 + 1 is not a bf16 number: ((256 + 1) + 1) stays 256, (1 + 1) + 256 would be 258.
    Tensor sum = rank.make(DType::kBf16, {1});
    rank.device().fill(sum, rank.along("cp").rank() == 0 ? 256 : 1);
    rank.along("cp").all_reduce(sum);
    EXPECT_EQ(sum.view().at(0), 256);
    Tensor last = rank.make(DType::kBf16, {1});
    rank.device().fill(last, rank.along("cp").rank() == 2 ? 256 : 1);
    rank.along("cp").all_reduce(last);
    EXPECT_EQ(last.view().at(0), 258);
    copy_forward(rank);
  };
  for (std::uint64_t schedule : {0, 1, 2, 3, 4, 5}) {
    expect_clean(run_sim(fixture_case(cp_mesh(3), schedule), fixture_subject(forward)));
  }
}

TEST(SimCollectives, AddRoundedRoundsToEveryType) {
  const double small = 0x1p-12;
  for (DType type : all_dtypes()) {
    std::array<std::byte, 8> sum{}, term{};
    store(type, sum.data(), 0, 1 + 0x1p-7);
    store(type, term.data(), 0, small);
    add_rounded(type, sum.data(), term.data(), 1);
    EXPECT_EQ(load(type, sum.data(), 0), round_to(type, 1 + 0x1p-7 + small)) << format(type).name;
  }
}

TEST(SimCollectives, PartsMayShareMemoryWithTheResult) {
  const auto forward = [](Rank& rank) {
    Communicator& group = rank.along("cp");
    Tensor all = rank.make(DType::kF32, {3, 2});
    std::vector<View> parts;
    for (Index i = 0; i < 3; ++i) {
      parts.push_back(all.view().select(0, i));
      rank.device().fill(parts.back(), i == group.rank() ? 1 + group.rank() : -1);
    }
    const View mine = parts[static_cast<std::size_t>(group.rank())];
    group.all_gather(mine, parts);
    for (Index i = 0; i < 6; ++i) EXPECT_EQ(all.view().at(i), 1 + i / 2);
    group.reduce_scatter(parts, mine);
    expect_all(mine, 3 * (1 + group.rank()));
    copy_forward(rank);
  };
  expect_clean(run_sim(fixture_case(cp_mesh(3)), fixture_subject(forward)));
}

std::string mismatch(void (*forward)(Rank&), std::uint64_t schedule = 0) {
  const Outcome outcome = run_sim(fixture_case(cp_mesh(3), schedule), fixture_subject(forward));
  EXPECT_EQ(outcome.ending, Ending::kMismatched) << text(outcome);
  return outcome.message;
}

TEST(SimCollectives, DifferentOperationsNameBothRanks) {
  EXPECT_EQ(mismatch([](Rank& rank) {
              if (rank.index() == 1) rank.along("cp").barrier();
              rank.along("cp").all_reduce(filled(rank, 2, 0));
            }),
            "rank 0 calls all_reduce (cp axis, forward) but rank 1 calls barrier (cp axis, "
            "forward)");
}

TEST(SimCollectives, DifferentCountsNameBothRanks) {
  EXPECT_EQ(mismatch([](Rank& rank) {
              rank.along("cp").all_reduce(filled(rank, rank.index() == 1 ? 4 : 5, 0));
            }),
            "in all_reduce (cp axis, forward) rank 0 gives 5 f32 elements where rank 1 takes 4 "
            "f32 elements");
}

TEST(SimCollectives, AGatherThatExpectsAnotherCountNamesBothRanks) {
  const auto forward = [](Rank& rank) {
    Communicator& group = rank.along("cp");
    std::vector<Tensor> parts;
    for (Index i = 0; i < 3; ++i) parts.push_back(filled(rank, rank.index() == 2 ? 1 : i, 0));
    const std::vector<View> views{parts[0], parts[1], parts[2]};
    group.all_gather(filled(rank, group.rank(), 0), views);
  };
  EXPECT_EQ(mismatch(forward),
            "in all_gather (cp axis, forward) rank 2 gives 2 f32 elements where rank 2 takes 1 "
            "f32 elements");
}

TEST(SimCollectives, DifferentTypesAndRootsAreMismatches) {
  EXPECT_NE(mismatch([](Rank& rank) {
              Tensor data = rank.make(rank.index() == 2 ? DType::kF16 : DType::kBf16, {3});
              rank.along("cp").all_reduce(data);
            }).find("rank 0 gives 3 bf16 elements where rank 2 takes 3 f16 elements"),
            std::string::npos);
  EXPECT_EQ(mismatch([](Rank& rank) {
              rank.along("cp").broadcast(filled(rank, 1, 0), rank.index() == 1 ? 1 : 0);
            }),
            "rank 0 calls broadcast from root 0 but rank 1 from root 1 (cp axis, forward)");
}

TEST(SimCollectives, AMissingMemberIsADeadlock) {
  const auto backward = [](Rank& rank) {
    copy_backward(rank);
    if (rank.index() != 1) rank.along("cp").barrier();
  };
  const Outcome outcome =
      run_sim(fixture_case(cp_mesh(3), 3), fixture_subject(&copy_forward, backward));
  EXPECT_EQ(outcome.ending, Ending::kDeadlocked);
  EXPECT_EQ(outcome.message,
            "no rank can go on: rank 0 waits in barrier for rank 1 (cp axis, backward); "
            "rank 1 has finished; 1 more wait");
}

TEST(SimCollectives, ACollectiveAgainstAMessageIsADeadlock) {
  const auto forward = [](Rank& rank) {
    if (rank.index() == 0) rank.along("cp").all_reduce(filled(rank, 1, 0));
    if (rank.index() == 1) rank.along("cp").receive(filled(rank, 1, 0), 0, 0);
  };
  const Outcome outcome = run_sim(fixture_case(cp_mesh(2)), fixture_subject(forward));
  EXPECT_EQ(outcome.message,
            "no rank can go on: rank 0 waits in all_reduce for rank 1 (cp axis, forward); "
            "rank 1 waits to receive from rank 0 (tag 0, cp axis, forward)");
}

}  // namespace
}  // namespace shardproof
