#include "harness/worlds/shard_table.h"

#include "harness/worlds/sim_fixture.h"

namespace shardproof {
namespace {

std::string prepare(ShardTable& shards, const Case& value, const Subject& subject) {
  return shards.prepare(value, subject, value.problem.op->tensors(value.problem));
}

TEST(ShardTable, AreKeptWhateverTheEditAndTheSchedule) {
  const Subject subject = fixture_subject(&copy_forward);
  ShardTable shards;
  Case value = fixture_case(cp_mesh(3));
  EXPECT_EQ(prepare(shards, value, subject), "");
  const PlacedShard* first = &shards.at(2, 1);
  EXPECT_EQ(first->indices[0], (std::vector<Index>{5, 6}));
  EXPECT_EQ(first->shape, Shape({2, 3}));
  value.problem.edit = Edit::kFrom;
  value.problem.edit_at = 4;
  value.placement.schedule = 9;
  EXPECT_EQ(prepare(shards, value, subject), "");
  EXPECT_EQ(&shards.at(2, 1), first);
}

TEST(ShardTable, AreOthersOnAnotherMeshOrLayoutAndForAnotherSubject) {
  Subject subject = fixture_subject(&copy_forward);
  ShardTable shards;
  const Case value = fixture_case(cp_mesh(3));
  EXPECT_EQ(prepare(shards, value, subject), "");
  const PlacedShard* first = &shards.at(0, 0);
  Case other = value;
  other.placement.layout = Layout::kStriped;
  EXPECT_EQ(prepare(shards, other, subject), "");
  EXPECT_EQ(shards.at(0, 0).indices[0], (std::vector<Index>{0, 3, 6}));
  other = value;
  other.placement.mesh = cp_mesh(7);
  EXPECT_EQ(prepare(shards, other, subject), "");
  EXPECT_EQ(shards.at(6, 0).indices[0], (std::vector<Index>{6}));
  subject.shard = [](const Case&, const TensorSpec&, int) { return Shard{{4}, {1}}; };
  EXPECT_EQ(prepare(shards, value, subject), "");
  EXPECT_EQ(shards.at(0, 0).indices[0], (std::vector<Index>{4}));
  EXPECT_EQ(prepare(shards, value, fixture_subject(&copy_forward)), "");
  EXPECT_EQ(&shards.at(0, 0), first) << "what a problem needed is kept";
}

TEST(ShardTable, OfAnotherProblemAreOthers) {
  const Subject subject = fixture_subject(&copy_forward);
  ShardTable shards;
  EXPECT_EQ(prepare(shards, fixture_case(cp_mesh(3), 0, 7), subject), "");
  EXPECT_EQ(prepare(shards, fixture_case(cp_mesh(3), 0, 9), subject), "");
  EXPECT_EQ(shards.at(2, 0).indices[0], (std::vector<Index>{6, 7, 8}));
}

TEST(ShardTable, ThatAreNoneAreNotKept) {
  Subject wrong = fixture_subject(&copy_forward);
  wrong.shard = [](const Case& value, const TensorSpec& spec, int rank) {
    return rank == 1 ? Shard{{0}} : fixture_shard(value, spec, rank);
  };
  ShardTable shards;
  const Case value = fixture_case(cp_mesh(3));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(prepare(shards, value, wrong),
              "rank 1: the shard of x has 1 dimensions instead of 2");
  }
  EXPECT_EQ(prepare(shards, value, fixture_subject(&copy_forward)), "");
}

}  // namespace
}  // namespace shardproof
