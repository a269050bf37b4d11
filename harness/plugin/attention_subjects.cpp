// Attention with the kernel of a plugin: by itself, as the block of a ring whose blocks are merged
// by lse (Liu et al. 2023), and for the heads of one rank.
#include <stdexcept>

#include "harness/plugin/attention_kernel.h"
#include "harness/plugin/kernels.h"
#include "harness/plugin/problem.h"
#include "parallel_impls/ring_heads.h"

namespace shardproof {
namespace {

Contract default_contract(const Case& value) {
  const Mesh& mesh = value.placement.mesh;
  Contract contract = ring_contract(value, mesh.size("cp"), mesh.size("tp"));
  contract.precision.rescales = 1;
  contract.precision.merge_blocks = mesh.size("cp") > 1;
  return contract;
}

Contract contract_of(const PluginEntry& entry, const Case& value) {
  const Contract defaults = default_contract(value);
  Contract contract = promised(entry.described(), value, defaults);
  contract.precision.merge_blocks = defaults.precision.merge_blocks;
  return contract;
}

// A kernel of one block is asked even where the mask hides all of it.
bool is_asked(Rank& rank, const QueryBlock& queries, const KeyBlock& keys, const BlockMask& mask) {
  if (queries.q.shape.elements() == 0 || keys.k.shape.elements() == 0) return false;
  return mask.any || rank.size("cp") == 1;
}

void forward(const PluginEntry& entry, Rank& rank) {
  const AttentionKernel kernel(rank, entry.on(rank));
  const QueryBlock queries = own_queries(rank);
  const int steps = rank.size("cp");
  const DType type = steps == 1 ? rank.problem().dtype
                                : contract_of(entry, rank.running()).precision.block_out;
  MergedBlocks merged(rank, queries.q, rank.problem().dim_v);
  TravellingKeys keys(rank, rank.get("k"), rank.get("v"));
  for (int step = 0; step < steps; ++step) {
    keys.start_next();
    const BlockMask mask = block_mask(rank.problem(), queries.chunks, keys.here().chunks);
    if (is_asked(rank, queries, keys.here(), mask)) {
      const AttentionKernel::Block block = kernel.forward(queries, keys.here(), mask, type);
      if (steps == 1) {
        rank.device().copy(block.out, rank.get("out"));
        rank.device().copy(block.lse, rank.get("lse"));
        return;
      }
      merged.add(block);
    }
    keys.finish_next();
  }
  merged.store(rank.get("out"), rank.get("lse"));
}

void backward(const PluginEntry& entry, Rank& rank) {
  const shardproof_subject& subject = entry.on(rank);
  const AttentionKernel kernel(rank, subject);
  const QueryBlock queries = own_queries(rank);
  const auto store = [&](const TravellingGradients::Home& home) {
    sum_shared_heads(rank, queries.heads.kv, home.dk);
    sum_shared_heads(rank, queries.heads.kv, home.dv);
    store_key_gradients(rank, home.dk, home.dv);
  };
  if (subject.attention_backward == nullptr) return store(ring_backward(rank, queries));
  const Upstream upstream = local_upstream(rank);
  const QueryGradients gradients = start_query_gradients(rank, queries);
  TravellingKeys keys(rank, rank.get("k"), rank.get("v"));
  TravellingGradients key_gradients(rank);
  for (int step = 0; step < rank.size("cp"); ++step) {
    keys.start_next();
    Tensor dk = make_zeros(rank, keys.here().k.shape);
    Tensor dv = make_zeros(rank, keys.here().v.shape);
    const BlockMask mask = block_mask(rank.problem(), queries.chunks, keys.here().chunks);
    if (is_asked(rank, queries, keys.here(), mask)) {
      kernel.backward(queries, keys.here(), mask, rank.get("out"), upstream,
                      gradients.with(dk, dv));
    }
    key_gradients.add_and_send(std::move(dk), std::move(dv));
    keys.finish_next();
  }
  store_query_gradients(rank, queries, gradients);
  store(key_gradients.arrive_home());
}

}  // namespace

const std::vector<KernelPlace>& attention_places() {
  static const std::vector<KernelPlace> places{
      {SHARDPROOF_ALONE, "", "by itself", {}},
      {SHARDPROOF_RING, "@ring", "as the block of a ring along cp", {"cp"}},
      {SHARDPROOF_HEADS, "@heads", "for heads cut along tp", {"tp"}},
  };
  return places;
}

void make_attention_subject(const PluginEntry& entry, const KernelPlace& place, Subject& subject) {
  subject.axes = place.axes;
  subject.uses_layout = place.place == SHARDPROOF_RING;
  subject.any_views = entry.described().any_strides != 0;
  subject.contract = [entry](const Case& value) { return contract_of(entry, value); };
  subject.cost = [](const Case& value, int rank) {
    Cost cost = ring_heads_cost(value, rank);
    cost.score_elements.reset();  // the plugin does not count
    return cost;
  };
  subject.unsupported = [entry, axes = place.axes](const Case& value) {
    const std::string why = foreign_axis(value.placement.mesh, axes);
    return why.empty() ? missing_feature(entry.described(), value) : why;
  };
  subject.adapt = [entry](Case& value) { remove_features(entry.described(), value); };
  subject.shard = ring_shard;
  subject.forward = [entry](Rank& rank) { forward(entry, rank); };
  subject.backward = [entry](Rank& rank) { backward(entry, rank); };
}

void expect_success(const char* words, std::string_view function) {
  if (words == nullptr) return;
  throw std::runtime_error(std::string(function) + ": " + words);
}

}  // namespace shardproof
