// Virtual time of the simulated world: what a transfer and a product would cost. The constants are
// those of one current accelerator and its links, rounded; they never decide what is computed.
#pragma once

#include <cstddef>

namespace shardproof {

// Multiply-adds a second of one rank.
inline constexpr double kMultiplyAddsPerSecond = 1e11;

// Every rank has one such link for each axis of the mesh.
inline constexpr double kLatencySeconds = 2e-6;
inline constexpr double kBytesPerSecond = 100e9;

// Every hop costs a latency, every byte its share of the link.
inline double transfer_seconds(int hops, double bytes) {
  return hops * kLatencySeconds + bytes / kBytesPerSecond;
}

// Ring algorithms over `ranks` ranks; `bytes` as a rank hands them in, the largest of the group.
// all_reduce = reduce_scatter + all_gather, of 1/ranks of the data each step (Patarasuk & Yuan
// 2009).
inline double all_reduce_seconds(int ranks, double bytes) {
  return transfer_seconds(2 * (ranks - 1), 2 * bytes * (ranks - 1) / ranks);
}
inline double all_gather_seconds(int ranks, double bytes) {
  return transfer_seconds(ranks - 1, bytes * (ranks - 1));
}
inline double reduce_scatter_seconds(int ranks, double bytes) {
  return transfer_seconds(ranks - 1, bytes * (ranks - 1) / ranks);
}
inline double all_to_all_seconds(int ranks, double bytes) {
  return transfer_seconds(ranks - 1, bytes);
}
// Pipelined along the ring.
inline double broadcast_seconds(int ranks, double bytes) {
  return ranks == 1 ? 0 : transfer_seconds(ranks - 1, bytes);
}
inline double barrier_seconds(int ranks) { return transfer_seconds(ranks - 1, 0); }

}  // namespace shardproof
