#include "harness/worlds/mpi_watch.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

TEST(MpiWatch, ARankThatOnlyALargerCaseHadMayAnswerLate) {
  MpiWatch watch(2, 10);
  for (int rank = 0; rank < 40; ++rank) watch.add(rank, Report{}, 1);
  EXPECT_FALSE(watch.stuck(1.1).has_value());
}

}  // namespace
}  // namespace shardproof
