// VirtualTime: what a transfer and a product cost in the simulated world. The figures never decide
// what is computed.
#pragma once

namespace shardproof {

// Those of one current accelerator and its links, rounded.
struct VirtualTime {
  double multiply_adds_per_second = 1e11;  // of one rank
  // Every rank has one such link for each axis of the mesh.
  double latency_seconds = 2e-6;
  double bytes_per_second = 100e9;

  // Every hop costs a latency, every byte its share of the link.
  double transfer(int hops, double bytes) const {
    return hops * latency_seconds + bytes / bytes_per_second;
  }

  // Ring algorithms over `ranks` ranks; `bytes` as a rank hands them in, the largest of the group.
  // all_reduce = reduce_scatter + all_gather, of 1/ranks of the data each step (Patarasuk & Yuan
  // 2009).
  double all_reduce(int ranks, double bytes) const {
    return transfer(2 * (ranks - 1), 2 * bytes * (ranks - 1) / ranks);
  }
  double all_gather(int ranks, double bytes) const {
    return transfer(ranks - 1, bytes * (ranks - 1));
  }
  double reduce_scatter(int ranks, double bytes) const {
    return transfer(ranks - 1, bytes * (ranks - 1) / ranks);
  }
  double all_to_all(int ranks, double bytes) const { return transfer(ranks - 1, bytes); }
  // Pipelined along the ring.
  double broadcast(int ranks, double bytes) const {
    return ranks == 1 ? 0 : transfer(ranks - 1, bytes);
  }
  double barrier(int ranks) const { return transfer(ranks - 1, 0); }
};

}  // namespace shardproof
