// Chunks: the runs of equally spaced tokens that a block of tokens consists of, and which pairs of
// query and key chunks the mask leaves anything of.
#pragma once

#include <algorithm>
#include <vector>

#include "harness/model/case.h"
#include "harness/run/device.h"

namespace shardproof {

struct Chunk {
  Index first = 0;  // local index of its first token
  Index count = 0;
  Positions positions;  // global
};

// The tokens that `rank` of `ranks` owns: one chunk for a contiguous block, two for a zigzag pair,
// and one, of tokens `ranks` apart, for a striped block.
inline std::vector<Chunk> owned_chunks(Layout layout, Index length, Index ranks, Index rank) {
  const std::vector<Index> positions = owned_positions(layout, length, ranks, rank);
  const Index step = layout == Layout::kStriped ? ranks : 1;
  // A zigzag pair is two chunks even where its parts touch, so that all ranks skip as much.
  const bool is_pair = layout == Layout::kZigzag;
  const Index second = is_pair ? even_part(length, 2 * ranks, rank).count : 0;
  std::vector<Chunk> chunks;
  Index local = 0;
  for (Index position : positions) {
    const bool goes_on = local != second && !chunks.empty() &&
                         chunks.back().positions.at(chunks.back().count) == position;
    if (!goes_on) chunks.push_back({local, 0, {position, step}});
    ++chunks.back().count;
    ++local;
  }
  return chunks;
}

// Every token, on a rank that owns them all.
inline std::vector<Chunk> every_token(Index length) {
  return owned_chunks(Layout::kContiguous, length, 1, 0);
}

// The global positions of all tokens of a block.
inline std::vector<Index> positions_of(const std::vector<Chunk>& chunks) {
  std::vector<Index> positions;
  for (const Chunk& chunk : chunks) {
    for (Index i = 0; i < chunk.count; ++i) positions.push_back(chunk.positions.at(i));
  }
  return positions;
}

inline Visibility visibility(const Problem& problem, Index batch, const Chunk& queries,
                             const Chunk& keys) {
  Visibility visible;
  visible.queries = queries.count;
  visible.keys = keys.count;
  visible.bytes.resize(static_cast<std::size_t>(queries.count * keys.count));
  visible.key_seen.resize(static_cast<std::size_t>(keys.count));
  const MaskArguments arguments = mask_arguments(problem);
  const auto predicate = problem.mask.mask->visible;
  std::uint8_t* byte = visible.bytes.data();
  for (Index i = 0; i < queries.count; ++i) {
    const Index query = queries.positions.at(i);
    for (std::uint8_t& seen : visible.key_seen) {
      const Index key = keys.positions.at(&seen - visible.key_seen.data());
      *byte = predicate(arguments, batch, query, key) ? 1 : 0;
      seen |= *byte++;
    }
  }
  const auto is_seen = [](std::uint8_t seen) { return seen != 0; };
  visible.any = std::any_of(visible.key_seen.begin(), visible.key_seen.end(), is_seen);
  visible.every_key_seen = std::all_of(visible.key_seen.begin(), visible.key_seen.end(), is_seen);
  return visible;
}

// Calls visit(batch, query chunk, key chunk, visibility) for every pair that the mask does not
// empty.
template <typename Visit>
void for_each_visible_pair(const Problem& problem, const std::vector<Chunk>& queries,
                           const std::vector<Chunk>& keys, Visit&& visit) {
  for (Index batch = 0; batch < problem.batch; ++batch) {
    for (const Chunk& from : queries) {
      for (const Chunk& to : keys) {
        const Visibility visible = visibility(problem, batch, from, to);
        if (visible.any) visit(batch, from, to, visible);
      }
    }
  }
}

// Products q.k that `heads` heads of these blocks compute in the forward pass.
inline double visible_products(const Problem& problem, const std::vector<Chunk>& queries,
                               const std::vector<Chunk>& keys, Index heads) {
  double products = 0;
  for_each_visible_pair(problem, queries, keys,
                        [&](Index, const Chunk& from, const Chunk& to, const Visibility&) {
                          products += static_cast<double>(heads * from.count * to.count);
                        });
  return products;
}

}  // namespace shardproof
