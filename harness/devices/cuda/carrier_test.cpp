#include "harness/devices/cuda/carrier.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "harness/devices/cuda/device.h"
#include "harness/run/memory.h"

namespace shardproof::cuda_double {
namespace {

// One rank of a group whose members all live here.
struct Member {
  CudaDevice device;
  Memory memory;
  std::unique_ptr<Carrier> carrier = device.make_carrier();

  Member() { memory.lie_in(device.store()); }

  Tensor filled(DType dtype, const Shape& shape, double value) {
    Tensor tensor = memory.allocate("", dtype, shape);
    device.fill(tensor, value);
    return tensor;
  }
};

class NcclCarrierOf : public testing::Test {
 protected:
  explicit NcclCarrierOf(int size = 3) : members_(static_cast<std::size_t>(size)) {
    const Carrier::GroupId id = members_[0].carrier->make_id();
    members_[0].carrier->together([&] {
      int position = 0;
      for (Member& member : members_) EXPECT_EQ(member.carrier->join(id, size, position++), 0);
    });
  }

  std::deque<Member> members_;
};

using NcclCarrierOfThree = NcclCarrierOf;

std::vector<double> values(const View& view) {
  std::vector<double> result;
  for (Index i = 0; i < view.elements(); ++i) result.push_back(view.at(i));
  return result;
}

TEST_F(NcclCarrierOfThree, SendsWhatTheDeviceComputesBeforeAndComputesOnWithWhatCame) {
  std::vector<Tensor> mine, got, twice;
  for (std::size_t r = 0; r < 3; ++r) {
    Member& member = members_[r];
    mine.push_back(member.filled(DType::kF32, {4}, static_cast<double>(r)));
    got.push_back(member.memory.allocate("", DType::kF32, {4}));
    twice.push_back(member.filled(DType::kF32, {4}, 10));
    member.carrier->start(0, got[r], static_cast<int>((r + 2) % 3), false, 1);
    member.carrier->start(0, mine[r], static_cast<int>((r + 1) % 3), true, 2);
    member.carrier->launch();
    EXPECT_FALSE(member.carrier->is_idle());
    member.carrier->finish(1);
    member.carrier->finish(2);
    EXPECT_TRUE(member.carrier->is_idle());
    member.device.add(got[r], twice[r]);
    member.device.fill(mine[r], -1);  // after it was sent
  }
  for (Member& member : members_) member.device.settle();
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(twice[r].view().at(3), 10 + static_cast<double>((r + 2) % 3));
  }
}

// What stands in the way of overlap would be a wait of the compute stream, or of the host.
TEST_F(NcclCarrierOfThree, TheDeviceGoesOnWhileATransferWaitsForItsOtherSide) {
  Member& member = members_[0];
  const Tensor mine = member.filled(DType::kF32, {4}, 1);
  const Tensor other = member.filled(DType::kF32, {4}, 2);
  member.carrier->start(0, mine, 1, true, 0);
  member.carrier->launch();
  member.device.add(mine, other);
  member.device.settle();
  EXPECT_EQ(other.view().at(0), 3);
  EXPECT_FALSE(member.carrier->is_idle());
  for (Member& each : members_) each.carrier->abandon();
}

TEST_F(NcclCarrierOfThree, WaitsCallWhatTheyWereGivenWhileTheOtherSideIsNotThere) {
  Member& late = members_[1];
  const Tensor sent = late.filled(DType::kF64, {2}, 6);
  const Tensor got = members_[0].memory.allocate("", DType::kF64, {2});
  int looks = 0;
  members_[0].device.wait_with([&] {
    if (++looks != 3) return;
    late.carrier->start(0, sent, 0, true, 0);
    late.carrier->finish(0);
  });
  members_[0].carrier->start(0, got, 1, false, 0);
  members_[0].carrier->finish(0);
  members_[0].device.settle();
  EXPECT_EQ(looks, 3);
  EXPECT_EQ(got.view().at(1), 6);
}

TEST_F(NcclCarrierOfThree, DisagreementsAndWhatWasGivenUp) {
  const Tensor short_one = members_[0].filled(DType::kF32, {2}, 1);
  const Tensor long_one = members_[1].filled(DType::kF32, {3}, 1);
  members_[0].carrier->start(0, short_one, 1, true, 0);
  members_[0].carrier->finish(0);
  members_[0].carrier->check();
  members_[1].carrier->start(0, long_one, 0, false, 0);
  members_[1].carrier->finish(0);
  EXPECT_THROW(members_[0].carrier->check(), NcclError);
  EXPECT_THROW(members_[1].carrier->check(), NcclError);
  for (Member& each : members_) each.carrier->abandon();
  for (Member& each : members_) each.device.settle();
  members_[0].carrier->check();
}

// Every dtype, equal and unequal parts, parts that lie one after another and parts that do not.
class NcclCarrierCollectives : public NcclCarrierOf,
                               public testing::WithParamInterface<std::tuple<DType, bool, bool>> {
 protected:
  DType dtype() const { return std::get<0>(GetParam()); }
  Index length(int rank) const { return std::get<1>(GetParam()) ? 2 : rank; }  // of a rank's part
  Index gap() const { return std::get<2>(GetParam()) ? 0 : 1; }

  // A part for every rank, of number `first`, first + 1, ...
  struct Parts {
    Tensor room;
    std::vector<View> views;
  };
  Parts parts(Member& member, double first, int only = -1) {
    Parts made{member.filled(dtype(), {12}, -1), {}};
    Index begin = 0;
    for (int rank = 0; rank < 3; ++rank) {
      const Index count = length(only < 0 ? rank : only);
      made.views.push_back(made.room.view().slice(0, begin, count));
      begin += count + gap();
      member.device.fill(made.views.back(), first + rank);
    }
    return made;
  }
  void settle() {
    for (Member& member : members_) member.device.settle();
  }
};

TEST_P(NcclCarrierCollectives, AllGather) {
  std::vector<Tensor> mine;
  std::vector<Parts> got;
  for (int r = 0; r < 3; ++r) {
    Member& member = members_[static_cast<std::size_t>(r)];
    mine.push_back(member.filled(dtype(), {length(r)}, 5 + r));
    got.push_back(parts(member, 0));
    member.carrier->collect(
        0, {.operation = "all_gather", .data = mine.back(), .parts = got.back().views});
  }
  settle();
  for (const Parts& each : got) {
    for (int r = 0; r < 3; ++r) {
      const View& part = each.views[static_cast<std::size_t>(r)];
      EXPECT_EQ(values(part), std::vector<double>(static_cast<std::size_t>(length(r)), 5 + r));
    }
    EXPECT_EQ(each.room.view().at(11), -1);
  }
}

TEST_P(NcclCarrierCollectives, ReduceScatter) {
  std::vector<Tensor> mine;
  std::vector<Parts> given;
  for (int r = 0; r < 3; ++r) {
    Member& member = members_[static_cast<std::size_t>(r)];
    mine.push_back(member.filled(dtype(), {length(r)}, -9));
    given.push_back(parts(member, 10 * r));
    member.carrier->collect(
        0, {.operation = "reduce_scatter", .data = mine.back(), .parts = given.back().views});
  }
  settle();
  for (int r = 0; r < 3; ++r) {  // r, 10 + r, 20 + r
    const View& sum = mine[static_cast<std::size_t>(r)];
    EXPECT_EQ(values(sum), std::vector<double>(static_cast<std::size_t>(length(r)), 30 + 3 * r));
  }
}

TEST_P(NcclCarrierCollectives, AllToAll) {
  std::vector<Parts> sent, received;
  for (int r = 0; r < 3; ++r) {
    Member& member = members_[static_cast<std::size_t>(r)];
    sent.push_back(parts(member, 10 * r));
    received.push_back(parts(member, -5, r));
    member.carrier->collect(
        0,
        {.operation = "all_to_all", .parts = sent.back().views, .received = received.back().views});
  }
  settle();
  for (int r = 0; r < 3; ++r) {
    for (int from = 0; from < 3; ++from) {
      const View& part =
          received[static_cast<std::size_t>(r)].views[static_cast<std::size_t>(from)];
      EXPECT_EQ(values(part),
                std::vector<double>(static_cast<std::size_t>(length(r)), 10 * from + r));
    }
  }
}

TEST_P(NcclCarrierCollectives, ReduceAndBroadcast) {
  std::vector<Tensor> sum, largest, spread, empty;
  for (int r = 0; r < 3; ++r) {
    Member& member = members_[static_cast<std::size_t>(r)];
    sum.push_back(member.filled(dtype(), {5}, 1 + r));
    largest.push_back(member.filled(dtype(), {5}, -1 - r));
    if (r == 1) member.device.fill(largest.back().view().slice(0, 3, 1), std::nan(""));
    spread.push_back(member.filled(dtype(), {5}, r));
    empty.push_back(member.filled(dtype(), {0}, 0));
    Carrier& carrier = *member.carrier;
    carrier.collect(0, {.operation = "all_reduce", .data = sum.back()});
    carrier.collect(0, {.operation = "all_reduce_maximum", .data = largest.back()});
    carrier.collect(0, {.operation = "all_reduce_maximum", .data = empty.back()});
    carrier.collect(0, {.operation = "broadcast", .data = spread.back(), .root = 2});
    member.device.add(spread.back(), sum.back());
  }
  settle();
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(values(sum[r]), std::vector<double>(5, 8));
    EXPECT_EQ(largest[r].view().at(2), -1);
    EXPECT_TRUE(std::isnan(largest[r].view().at(3)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, NcclCarrierCollectives,
                         testing::Combine(testing::ValuesIn(all_dtypes()), testing::Bool(),
                                          testing::Bool()));

// In f32 the sum has bits that tf32 has not.
TEST_F(NcclCarrierOfThree, SumsOfTf32AreRounded) {
  std::vector<Tensor> sums;
  for (std::size_t r = 0; r < 3; ++r) {
    sums.push_back(members_[r].filled(DType::kTf32, {1}, r == 0 ? 1024 : 0.5));
    members_[r].carrier->collect(0, {.operation = "all_reduce", .data = sums.back()});
    members_[r].carrier->collect(0, {.operation = "all_reduce", .data = sums.back()});
  }
  for (Member& member : members_) member.device.settle();
  for (const Tensor& sum : sums) {
    EXPECT_EQ(sum.view().at(0), round_to(DType::kTf32, 3 * round_to(DType::kTf32, 1025)));
  }
}

}  // namespace
}  // namespace shardproof::cuda_double
