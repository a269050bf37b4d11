#include "harness/worlds/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace shardproof {
namespace {

// The order in which four ranks take three turns each.
std::string turns(std::uint64_t schedule) {
  Scheduler scheduler;
  std::string order;
  const bool ended = scheduler.run(
      4, schedule,
      [&](int rank) {
        for (int turn = 0; turn < 3; ++turn) {
          order += std::to_string(rank);
          scheduler.wake(rank);
          scheduler.block();
        }
      },
      [] { FAIL(); });
  EXPECT_TRUE(ended);
  return order;
}

TEST(Scheduler, TheFirstTwoSchedulesTakeTurns) {
  EXPECT_EQ(turns(0), "012301230123");
  EXPECT_EQ(turns(1), "012301230123");
}

TEST(Scheduler, OrdersFollowFromTheScheduleAndDifferBetweenThem) {
  std::map<std::string, int> orders;
  for (std::uint64_t schedule = 2; schedule < 52; ++schedule) {
    EXPECT_EQ(turns(schedule), turns(schedule));
    ++orders[turns(schedule)];
  }
  EXPECT_GE(orders.size(), 48u);
}

TEST(Scheduler, StuckIsCalledOnceAndEveryStartedRankIsUnwound) {
  Scheduler scheduler;
  int stuck = 0;
  int unwound = 0;
  struct Count {
    int& count;
    ~Count() { ++count; }
  };
  const auto body = [&](int rank) {
    const Count count{unwound};
    if (rank != 1) scheduler.block();
  };
  EXPECT_FALSE(scheduler.run(3, 0, body, [&] { ++stuck; }));
  EXPECT_EQ(stuck, 1);
  EXPECT_EQ(unwound, 3);
  EXPECT_TRUE(scheduler.has_ended(1));
  // And it can be used again.
  EXPECT_TRUE(scheduler.run(
      2, 0, [](int) {}, [] { FAIL(); }));
}

TEST(Scheduler, StoppingDoesNotStartTheOthers) {
  Scheduler scheduler;
  int started = 0;
  EXPECT_FALSE(scheduler.run(
      5, 0,
      [&](int) {
        ++started;
        scheduler.stop();
      },
      [] { FAIL(); }));
  EXPECT_EQ(started, 1);
}

TEST(Scheduler, DeepStacksFit) {
  Scheduler scheduler;
  int sum = 0;
  const auto body = [&](int) {
    volatile char room[128 * 1024];
    for (std::size_t i = 0; i < sizeof room; i += 1024) room[i] = 1;
    scheduler.pause();
    for (std::size_t i = 0; i < sizeof room; i += 1024) sum += room[i];
  };
  EXPECT_TRUE(scheduler.run(8, 2, body, [] { FAIL(); }));
  EXPECT_EQ(sum, 8 * 128);
}

TEST(Schedule, TheRandomOnesMixBothWaysOfSending) {
  int never_buffered = 0;
  int mixed = 0;
  for (std::uint64_t number = 2; number < 202; ++number) {
    Schedule schedule(number);
    int buffered = 0;
    for (int i = 0; i < 100; ++i) buffered += schedule.send_is_buffered() ? 1 : 0;
    if (buffered == 0) ++never_buffered;
    if (buffered > 0 && buffered < 100) ++mixed;
  }
  EXPECT_GT(never_buffered, 30);
  EXPECT_GT(mixed, 120);
  Schedule plain(0);
  EXPECT_TRUE(plain.send_is_buffered());
  EXPECT_FALSE(plain.send_is_read_late());
  Schedule strict(1);
  EXPECT_FALSE(strict.send_is_buffered());
  EXPECT_TRUE(strict.send_is_read_late());
}

}  // namespace
}  // namespace shardproof
