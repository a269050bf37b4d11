#include "harness/run/whereabouts.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

TEST(Whereabouts, NamesTheRankAndItsLastCommunication) {
  Whereabouts where;
  keep_whereabouts(&where);
  EXPECT_EQ(where.text(), "");
  note_rank(1);
  EXPECT_EQ(where.text(), "rank 1, after no communication");
  note_event(1, "all_reduce", "cp", false);
  note_event(2, "send", "tp", true);
  EXPECT_EQ(where.text(), "rank 1, after all_reduce (cp axis, forward)");
  note_rank(2);
  EXPECT_EQ(where.text(), "rank 2, after send (tp axis, backward)");
  note_event(2, "an_operation_with_a_very_long_name", "axis_with_a_long_name", true);
  EXPECT_EQ(where.text(), "rank 2, after an_operation_with_a (axis_wi axis, backward)");
  note_event(100000, "send", "tp", true);
  note_rank(100000);
  EXPECT_EQ(where.text(), "rank 100000");
  keep_whereabouts(nullptr);
  note_rank(3);
  EXPECT_EQ(where.rank, 100000);
}

TEST(Whereabouts, SurviveAnythingThatTheirMemoryHolds) {
  Whereabouts where;
  where.last[7].operation.fill('x');  // no end
  where.last[7].axis.fill('y');
  for (int rank : {-5, 7, 256, 1 << 30}) {
    where.rank = rank;
    EXPECT_LT(where.text().size(), 100U);
  }
}

}  // namespace
}  // namespace shardproof
