// The layout of a golden file (README.md in this folder): names, limits and rules, in one place
// for the writer and the reader.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "golden/golden.h"

namespace shardproof::golden_format {

inline constexpr std::string_view kFormat = "shardproof golden";

// Limits that keep a foreign file from exhausting the reader. The writer keeps to them too.
inline constexpr int kMaximumRank = 8;
inline constexpr Index kMaximumElements = Index{1} << 27;  // of all datasets together
inline constexpr std::size_t kMaximumAttributeBytes = 60000;
inline constexpr std::size_t kMaximumNameBytes = 100;
inline constexpr std::size_t kMaximumTextBytes = std::size_t{1} << 24;
inline constexpr std::size_t kMaximumObjects = 4096;  // links of one group
inline constexpr Index kMaximumFileBytes = Index{1} << 31;
inline constexpr Index kMaximumEventBytes = Index{1} << 38;  // sums over a trace must not overflow

// The groups of tensors, in the order of Golden's members.
inline constexpr std::array<std::string_view, 4> kTensorGroups{"inputs", "got", "want", "bound"};
inline constexpr std::string_view kShards = "shards";
inline constexpr std::string_view kTrace = "trace";
inline constexpr std::string_view kEnvironment = "environment";
inline constexpr std::string_view kContract = "contract";
inline constexpr std::string_view kMessage = "message";

// The number of elements of `extents`, or -1 when it is too large or an extent is negative. Extents
// of 0 do not excuse others that are too large: products of extents must not overflow.
Index checked_elements(const std::vector<Index>& extents);

std::vector<GoldenTensor>& tensors_of(Golden& golden, std::size_t group);
const std::vector<GoldenTensor>& tensors_of(const Golden& golden, std::size_t group);

// What a dtype looks like in memory and in the file: tf32 is kept with all bits of its f32 storage.
DType stored_as(DType dtype);

// Letters, digits, '_', '.' and '-', at most kMaximumNameBytes of them: safe as a link or attribute
// name.
bool is_name(std::string_view text);

// "a,b,c"
std::string joined(const std::vector<std::string>& names);

// "out.rank_3"
std::string shard_name(const KeptShard& shard);

// The dtype of a shard: that of the got tensor it is part of, f64 when there is none.
DType shard_dtype(const Golden& golden, const KeptShard& shard);

std::string_view phase_name(Phase phase);

// An operation of the communication trace as text with static storage; "other" when unknown.
std::string_view known_operation(std::string_view text);

// Of all datasets together.
Index total_elements(const Golden& golden);

// Which rule of the format the golden breaks, or an empty string. Everything that is written or
// was read satisfies it.
std::string broken_rule(const Golden& golden);

}  // namespace shardproof::golden_format
