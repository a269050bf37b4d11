#include "harness/devices/cuda/nccl.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "harness/model/dtype.h"

namespace shardproof::cuda_double {
namespace {

// Members of one communicator, each with a stream and numbers of its own.
class NcclDouble : public testing::Test {
 protected:
  void join(int size) {
    ncclUniqueId id{};
    ASSERT_EQ(nccl().get_unique_id(&id), ncclSuccess);
    ASSERT_EQ(nccl().group_start(), ncclSuccess);
    for (int i = 0; i < size; ++i) {
      cudaStream_t stream = nullptr;
      ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
      streams_.push_back(stream);
      members_.push_back(nullptr);
      ASSERT_EQ(nccl().comm_init_rank(&members_.back(), size, id, i), ncclSuccess);
    }
    ASSERT_EQ(nccl().group_end(), ncclSuccess);
  }
  ~NcclDouble() override {
    for (ncclComm_t member : members_) nccl().comm_destroy(member);
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }

  void send(int from, int to, const std::vector<float>& data) {
    ASSERT_EQ(nccl().send(data.data(), data.size(), ncclFloat32, to, member(from), stream(from)),
              ncclSuccess);
  }
  void receive(int to, int from, std::vector<float>& data) {
    ASSERT_EQ(nccl().receive(data.data(), data.size(), ncclFloat32, from, member(to), stream(to)),
              ncclSuccess);
  }
  template <class Calls>
  void grouped(Calls calls) {
    ASSERT_EQ(nccl().group_start(), ncclSuccess);
    calls();
    ASSERT_EQ(nccl().group_end(), ncclSuccess);
  }
  bool is_done(int rank) { return cudaStreamQuery(stream(rank)) == cudaSuccess; }
  ncclResult_t error(int rank) {
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(nccl().comm_get_async_error(member(rank), &state), ncclSuccess);
    return state;
  }
  ncclComm_t member(int rank) { return members_[static_cast<std::size_t>(rank)]; }
  cudaStream_t stream(int rank) { return streams_[static_cast<std::size_t>(rank)]; }

  std::vector<ncclComm_t> members_;
  std::vector<cudaStream_t> streams_;
};

TEST_F(NcclDouble, NothingMovesBeforeTheOutermostGroupEnds) {
  join(2);
  const std::vector<float> data{1, 2};
  std::vector<float> got(2, 0);
  receive(1, 0, got);
  ASSERT_EQ(nccl().group_start(), ncclSuccess);
  grouped([&] { send(0, 1, data); });
  EXPECT_FALSE(is_done(1));
  ASSERT_EQ(nccl().group_end(), ncclSuccess);
  EXPECT_EQ(got[0], 0) << "nobody has waited yet";
  EXPECT_TRUE(is_done(1));
  EXPECT_EQ(got, data);
  EXPECT_EQ(nccl().group_end(), ncclInvalidUsage);
}

TEST_F(NcclDouble, ATransferWaitsForBothStreams) {
  join(2);
  std::vector<float> data{1};
  std::vector<float> got{0};
  bool may_go = false;
  ASSERT_EQ(enqueue_when(stream(0), [&] { return may_go; }), cudaSuccess);
  ASSERT_EQ(enqueue(stream(0),
                    [&](BlockExecutor&) {
                      data[0] = 7;
                      return std::string();
                    }),
            cudaSuccess);
  send(0, 1, data);
  receive(1, 0, got);
  EXPECT_FALSE(is_done(1));
  may_go = true;
  EXPECT_TRUE(is_done(1)) << "whoever waits has the others do what they can";
  EXPECT_EQ(got[0], 7);
  EXPECT_TRUE(is_done(0));
}

TEST_F(NcclDouble, SendsThatAreNotGroupedWaitForEachOther) {
  for (bool together : {true, false}) {
    SCOPED_TRACE(together);
    join(3);
    std::array<std::vector<float>, 3> data{{{0}, {1}, {2}}};
    std::array<std::vector<float>, 3> got{{{-1}, {-1}, {-1}}};
    for (int rank = 0; rank < 3; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      if (together) {
        EXPECT_EQ(nccl().group_start(), ncclSuccess);
      }
      send(rank, (rank + 1) % 3, data[at]);
      receive(rank, (rank + 2) % 3, got[at]);
      if (together) {
        EXPECT_EQ(nccl().group_end(), ncclSuccess);
      }
    }
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(is_done(rank), together);
      const float want = together ? static_cast<float>((rank + 2) % 3) : -1;
      EXPECT_EQ(got[static_cast<std::size_t>(rank)][0], want);
    }
    for (ncclComm_t member : members_) nccl().comm_abort(member);
    for (cudaStream_t stream : streams_) EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
    members_.clear();
    streams_.clear();
  }
}

// 0 sends to 1 and receives from 2, which has to wait for what 1 passes on.
TEST_F(NcclDouble, TransfersOfAGroupMoveIndependently) {
  join(3);
  const std::vector<float> data{5};
  std::vector<float> at_1{0}, at_2{0}, at_0{0};
  grouped([&] {
    send(0, 1, data);
    receive(0, 2, at_0);
  });
  receive(1, 0, at_1);
  send(1, 2, at_1);
  receive(2, 1, at_2);
  send(2, 0, at_2);
  EXPECT_TRUE(is_done(0));
  EXPECT_EQ(at_0[0], 5);
}

TEST_F(NcclDouble, RanksThatDisagreeAreToldAndWait) {
  join(2);
  const std::vector<float> data{1, 2};
  std::vector<float> short_one(1, 0);
  send(0, 1, data);
  receive(1, 0, short_one);
  EXPECT_EQ(error(0), ncclInvalidUsage);
  EXPECT_EQ(error(1), ncclInvalidUsage);
  EXPECT_FALSE(is_done(1));
  EXPECT_EQ(nccl().comm_abort(member(1)), ncclSuccess);
  members_.pop_back();
  EXPECT_TRUE(is_done(1)) << "what was given up keeps nobody waiting";
}

TEST_F(NcclDouble, AnotherRootIsADisagreement) {
  join(2);
  std::vector<float> data{1, 2};
  for (int rank : {0, 1}) {
    ASSERT_EQ(nccl().broadcast(data.data(), data.data(), 2, ncclFloat32, rank, member(rank),
                               stream(rank)),
              ncclSuccess);
  }
  EXPECT_EQ(error(0), ncclInvalidUsage);
  EXPECT_FALSE(is_done(0));
}

TEST_F(NcclDouble, SumsGoRoundTheRingAndAreRoundedAtEveryRank) {
  join(3);
  // In bf16, 1 + 256 = 256 and 257 has no value of its own: what comes first shows.
  std::array<std::vector<std::uint16_t>, 3> data;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    data[rank].assign(3, bf16_bits(rank == 2 ? 256.0f : 1.0f));
  }
  for (int rank = 0; rank < 3; ++rank) {
    auto* mine = data[static_cast<std::size_t>(rank)].data();
    ASSERT_EQ(nccl().all_reduce(mine, mine, 3, ncclBfloat16, ncclSum, member(rank), stream(rank)),
              ncclSuccess);
  }
  ASSERT_TRUE(is_done(0));
  // Elements end at ranks 0, 1, 2: (1 + 256) + 1, (256 + 1) + 1, (1 + 1) + 256.
  const std::vector<std::uint16_t> want{bf16_bits(256.0f), bf16_bits(256.0f), bf16_bits(258.0f)};
  for (const auto& got : data) EXPECT_EQ(got, want);
}

TEST_F(NcclDouble, GathersAndScatters) {
  join(2);
  std::array<std::vector<float>, 2> all{{{0, 0, 0, 0}, {0, 0, 0, 0}}};
  std::array<std::vector<float>, 2> one{{{1, 2}, {3, 4}}};
  for (int rank : {0, 1}) {
    const auto at = static_cast<std::size_t>(rank);
    ASSERT_EQ(nccl().all_gather(one[at].data(), all[at].data(), 2, ncclFloat32, member(rank),
                                stream(rank)),
              ncclSuccess);
    ASSERT_EQ(nccl().reduce_scatter(all[at].data(), one[at].data(), 2, ncclFloat32, ncclSum,
                                    member(rank), stream(rank)),
              ncclSuccess);
    ASSERT_EQ(nccl().reduce(one[at].data(), all[at].data(), 2, ncclFloat32, ncclSum, 1,
                            member(rank), stream(rank)),
              ncclSuccess);
  }
  ASSERT_TRUE(is_done(1));
  EXPECT_EQ(one[0], (std::vector<float>{2, 4}));
  EXPECT_EQ(one[1], (std::vector<float>{6, 8}));
  EXPECT_EQ(all[0], (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(all[1], (std::vector<float>{8, 12, 3, 4}));
}

TEST_F(NcclDouble, RefusesWhatNcclRefuses) {
  join(2);
  std::vector<float> data{1};
  EXPECT_EQ(nccl().send(data.data(), 1, ncclFloat32, 2, member(0), stream(0)), ncclInvalidArgument);
  EXPECT_EQ(nccl().send(nullptr, 1, ncclFloat32, 1, member(0), stream(0)), ncclInvalidArgument);
  EXPECT_EQ(nccl().send(data.data(), 1, ncclFloat32, 1, nullptr, stream(0)), ncclInvalidArgument);
  ncclUniqueId id{};
  ASSERT_EQ(nccl().get_unique_id(&id), ncclSuccess);
  ncclComm_t alone = nullptr;
  EXPECT_EQ(nccl().comm_init_rank(&alone, 2, id, 0), ncclInvalidUsage) << "it would wait for ever";
  ASSERT_EQ(nccl().comm_init_rank(&alone, 1, id, 0), ncclSuccess);
  EXPECT_EQ(nccl().comm_destroy(alone), ncclSuccess);
}

}  // namespace
}  // namespace shardproof::cuda_double
