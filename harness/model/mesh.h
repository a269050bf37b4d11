// Mesh: named axes of ranks, first axis slowest, and the coordinates and groups they define.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof {

// What is cut along an axis: tp weights or a vocabulary, cp the tokens of sequences that attend, dp
// tokens that have nothing to do with each other.
inline constexpr std::array<std::string_view, 3> kAxisNames{"tp", "cp", "dp"};

struct Axis {
  std::string name;  // one of kAxisNames
  int size = 1;

  bool operator==(const Axis&) const = default;
};

// An empty mesh is one rank.
struct Mesh {
  std::vector<Axis> axes;

  int ranks() const;

  // The extent of `axis`; 1 when the mesh has no such axis.
  int size(std::string_view axis) const;

  // Where `rank` lies along `axis`, 0-based; 0 when the mesh has no such axis.
  int coordinate(int rank, std::string_view axis) const;

  // The ranks that differ from `rank` only along `axis`, by increasing coordinate.
  std::vector<int> group(int rank, std::string_view axis) const;

  // "tp:2,cp:4"; "1" when there are no axes.
  std::string text() const;

  bool operator==(const Mesh&) const = default;
};

}  // namespace shardproof
