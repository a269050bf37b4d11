// What a ring of key/value blocks costs and promises, by formula.
#pragma once

#include "parallel_impls/ring.h"

namespace shardproof {

// Elements of k and v in block `owner`, on a rank that holds `kv_heads` of the heads.
inline Index block_elements(const Case& value, int ring_size, int owner, Index kv_heads) {
  const Problem& problem = value.problem;
  const auto tokens = static_cast<Index>(owned_keys(value, ring_size, owner).size());
  return problem.batch * tokens * kv_heads * (problem.dim + problem.dim_v);
}

// k and v take a message each. Forward: every block but the last is passed on. Backward: once more,
// and the gradients of every block besides.
inline std::vector<Traffic> ring_traffic(const Case& value, int ring_size, int ring_rank,
                                         Index kv_heads) {
  if (ring_size == 1) return {};
  const auto kv_bytes = static_cast<Index>(storage_bytes(value.problem.dtype));
  const auto sum_bytes = static_cast<Index>(storage_bytes(accumulator_of(value.problem.dtype)));
  Index passed_on = 0;
  Index all = 0;
  for (int step = 0; step < ring_size; ++step) {
    const int owner = block_owner(ring_rank, ring_size, step);
    const Index elements = block_elements(value, ring_size, owner, kv_heads);
    all += elements;
    if (step + 1 < ring_size) passed_on += elements;
  }
  const Index hops = ring_size - 1;
  return {{Phase::kForward, "send", "cp", 2 * hops, passed_on * kv_bytes},
          {Phase::kBackward, "send", "cp", 2 * hops + 2 * ring_size,
           passed_on * kv_bytes + all * sum_bytes}};
}

// Sums of the sinks' gradients over the ring, of `heads` heads.
inline void add_sink_traffic(const Case& value, int ring_size, Index heads,
                             std::vector<Traffic>& traffic) {
  if (!value.problem.sink || ring_size == 1) return;
  const auto bytes = static_cast<Index>(storage_bytes(accumulator_of(value.problem.dtype)));
  traffic.push_back({Phase::kBackward, "all_reduce", "cp", 1, heads * bytes});
}

// The block worked on and the one arriving, where they are other ranks'.
inline Index ring_resident_bytes(const Case& value, int ring_size, int ring_rank, Index kv_heads) {
  Index most = 0;
  for (int step = 0; step < ring_size; ++step) {
    Index elements = 0;
    for (int held = std::max(step, 1); held <= step + 1 && held < ring_size; ++held) {
      const int owner = block_owner(ring_rank, ring_size, held);
      elements += block_elements(value, ring_size, owner, kv_heads);
    }
    most = std::max(most, elements);
  }
  return most * static_cast<Index>(storage_bytes(value.problem.dtype));
}

// q.k products of `heads` query heads with every block of keys.
inline double ring_products(const Case& value, int ring_size, int ring_rank, Index heads) {
  const std::vector<Chunk> queries = query_chunks(value, ring_size, ring_rank);
  double products = 0;
  for (int owner = 0; owner < ring_size; ++owner) {
    products +=
        visible_products(value.problem, queries, key_chunks(value, ring_size, owner), heads);
  }
  return products;
}

// Online-softmax steps that a row can take: one for each chunk of keys.
inline int ring_rescales(const Case& value, int ring_size) {
  std::size_t chunks = 0;
  for (int owner = 0; owner < ring_size; ++owner) {
    chunks += key_chunks(value, ring_size, owner).size();
  }
  return static_cast<int>(std::max<std::size_t>(chunks, 1));
}

// `tensor_parts`: how many ranks share the heads.
inline Contract ring_contract(const Case& value, int ring_size, int tensor_parts) {
  const Problem& problem = value.problem;
  Contract contract;
  contract.precision = attention_precision(problem);
  contract.precision.rescales = ring_rescales(value, ring_size);
  for (int owner = 0; owner < ring_size; ++owner) {
    contract.partitions.queries.push_back(
        owned_positions(value.placement.layout, problem.q, ring_size, owner));
    contract.partitions.keys.push_back(owned_keys(value, ring_size, owner));
  }
  contract.partitions.summed = even_partition(problem.heads, tensor_parts);
  return contract;
}

}  // namespace shardproof
