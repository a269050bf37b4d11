#include "harness/model/mesh.h"

#include <gtest/gtest.h>

#include <set>

namespace shardproof {
namespace {

using Group = std::vector<int>;

TEST(Mesh, TheFirstAxisIsTheSlowest) {
  const Mesh mesh{{{"tp", 2}, {"cp", 3}}};
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(mesh.coordinate(rank, "tp"), rank / 3);
    EXPECT_EQ(mesh.coordinate(rank, "cp"), rank % 3);
  }
  EXPECT_EQ(mesh.group(4, "cp"), (Group{3, 4, 5}));
  EXPECT_EQ(mesh.group(4, "tp"), (Group{1, 4}));

  const Mesh swapped{{{"cp", 3}, {"tp", 2}}};
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(swapped.coordinate(rank, "cp"), rank / 2);
    EXPECT_EQ(swapped.coordinate(rank, "tp"), rank % 2);
  }
  EXPECT_EQ(swapped.group(4, "cp"), (Group{0, 2, 4}));
  EXPECT_EQ(swapped.group(4, "tp"), (Group{4, 5}));
}

TEST(Mesh, CoordinatesTellRanksApart) {
  const Mesh mesh{{{"tp", 3}, {"cp", 4}, {"dp", 5}}};
  std::set<std::vector<int>> seen;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    std::vector<int> coordinates;
    for (const Axis& axis : mesh.axes) {
      coordinates.push_back(mesh.coordinate(rank, axis.name));
      EXPECT_LT(coordinates.back(), axis.size);
      EXPECT_GE(coordinates.back(), 0);
    }
    seen.insert(coordinates);
  }
  EXPECT_EQ(seen.size(), 60u);
}

TEST(Mesh, AGroupHoldsTheRanksThatDifferAlongOneAxisInOrder) {
  const Mesh mesh{{{"tp", 2}, {"cp", 3}, {"dp", 2}}};
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    for (const Axis& axis : mesh.axes) {
      const Group group = mesh.group(rank, axis.name);
      ASSERT_EQ(static_cast<int>(group.size()), axis.size);
      EXPECT_EQ(group[static_cast<std::size_t>(mesh.coordinate(rank, axis.name))], rank);
      for (std::size_t i = 0; i < group.size(); ++i) {
        EXPECT_EQ(mesh.coordinate(group[i], axis.name), static_cast<int>(i));
        for (const Axis& other : mesh.axes) {
          if (other == axis) continue;
          EXPECT_EQ(mesh.coordinate(group[i], other.name), mesh.coordinate(rank, other.name));
        }
      }
    }
  }
}

TEST(Mesh, AnAxisThatItDoesNotHaveIsAGroupOfOne) {
  const Mesh mesh{{{"cp", 4}}};
  EXPECT_EQ(mesh.size("tp"), 1);
  EXPECT_EQ(mesh.coordinate(3, "tp"), 0);
  EXPECT_EQ(mesh.group(3, "tp"), Group{3});
}

TEST(Mesh, NoAxesMeansOneRank) {
  const Mesh mesh;
  EXPECT_EQ(mesh.ranks(), 1);
  EXPECT_EQ(mesh.group(0, "cp"), Group{0});
  EXPECT_EQ(mesh.text(), "1");
}

TEST(Mesh, TextNamesAxesInOrder) {
  const Mesh mesh{{{"tp", 2}, {"cp", 4}}};
  EXPECT_EQ(mesh.text(), "tp:2,cp:4");
  EXPECT_EQ(mesh.ranks(), 8);
}

}  // namespace
}  // namespace shardproof
