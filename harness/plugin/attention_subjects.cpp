// Attention with the kernel of a plugin: by itself, as the block of a ring whose blocks are merged
// by lse (Liu et al. 2023), and for the heads of one rank.
#include <limits>
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

// The block of a rank that has all keys.
struct OnlyBlock {
  explicit OnlyBlock(Rank& rank)
      : queries(own_queries(rank)),
        keys{rank.get("k"), rank.get("v"), key_chunks(rank.running(), 1, 0)},
        is_empty(queries.q.elements() == 0 || keys.k.elements() == 0) {
    if (!is_empty) mask = block_mask(rank.problem(), queries.chunks, keys.chunks);
  }

  QueryBlock queries;
  KeyBlock keys;
  bool is_empty;
  BlockMask mask;
};

void forward_of_one(const AttentionKernel& kernel, Rank& rank) {
  const OnlyBlock only(rank);
  if (only.is_empty) {
    rank.device().fill(rank.get("out"), 0);
    rank.device().fill(rank.get("lse"), -std::numeric_limits<double>::infinity());
    return;
  }
  const auto block = kernel.forward(only.queries, only.keys, only.mask, rank.problem().dtype);
  rank.device().copy(block.out, rank.get("out"));
  rank.device().copy(block.lse, rank.get("lse"));
}

void forward(const PluginEntry& entry, Rank& rank) {
  const AttentionKernel kernel(rank, entry.on(rank));
  const int steps = rank.size("cp");
  if (steps == 1) return forward_of_one(kernel, rank);
  const QueryBlock queries = own_queries(rank);
  const DType type = contract_of(entry, rank.running()).precision.block_out;
  MergedBlocks merged(rank, queries.q, rank.problem().dim_v);
  TravellingKeys keys(rank, rank.get("k"), rank.get("v"));
  for (int step = 0; step < steps; ++step) {
    keys.start_next();
    const BlockMask mask = block_mask(rank.problem(), queries.chunks, keys.here().chunks);
    if (mask.any && queries.heads.query.count > 0) {
      merged.add(kernel.forward(queries, keys.here(), mask, type));
    }
    keys.finish_next();
  }
  merged.store(rank.get("out"), rank.get("lse"));
}

// A rank that is alone; everything is one block's.
void backward_of_one(const AttentionKernel& kernel, Rank& rank) {
  const OnlyBlock only(rank);
  const bool is_biased = rank.problem().bias == ScoreBias::kDense;
  const AttentionGradients gradients{rank.get("dq"), rank.get("dk"), rank.get("dv"),
                                     is_biased ? rank.get("dbias") : View{}};
  if (!only.is_empty) {
    return kernel.backward(only.queries, only.keys, only.mask, rank.get("out"),
                           local_upstream(rank), gradients, true);
  }
  for (const View& each : {gradients.dq, gradients.dk, gradients.dv, gradients.dbias}) {
    if (each.data != nullptr) rank.device().fill(each, 0);
  }
}

void backward(const PluginEntry& entry, Rank& rank) {
  const shardproof_subject& subject = entry.on(rank);
  const AttentionKernel kernel(rank, subject);
  const bool is_plugged = subject.attention_backward != nullptr;
  if (is_plugged && rank.mesh().ranks() == 1) return backward_of_one(kernel, rank);
  const QueryBlock queries = own_queries(rank);
  const auto store = [&](const TravellingGradients::Home& home) {
    sum_shared_heads(rank, queries.heads.kv, home.dk);
    sum_shared_heads(rank, queries.heads.kv, home.dv);
    store_key_gradients(rank, home.dk, home.dv);
  };
  if (!is_plugged) return store(ring_backward(rank, queries));
  const Upstream upstream = local_upstream(rank);
  const QueryGradients gradients = start_query_gradients(rank, queries);
  TravellingKeys keys(rank, rank.get("k"), rank.get("v"));
  TravellingGradients key_gradients(rank);
  for (int step = 0; step < rank.size("cp"); ++step) {
    keys.start_next();
    Tensor dk = make_zeros(rank, keys.here().k.shape);
    Tensor dv = make_zeros(rank, keys.here().v.shape);
    const BlockMask mask = block_mask(rank.problem(), queries.chunks, keys.here().chunks);
    if (mask.any && queries.heads.query.count > 0) {
      kernel.backward(queries, keys.here(), mask, rank.get("out"), upstream, gradients.with(dk, dv),
                      false);
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
