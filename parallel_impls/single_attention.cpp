// Attention on one rank, in the precision of the sharded subjects: the error that sharding starts
// from.
#include "parallel_impls/attention_tensors.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

KeyBlock every_key(Rank& rank) {
  return {rank.get("k"), rank.get("v"), every_token(rank.problem().kv)};
}

QueryBlock every_query(Rank& rank) {
  return local_queries(rank, heads_of(rank.problem(), 1, 0), every_token(rank.problem().q));
}

void forward(Rank& rank) {
  const QueryBlock queries = every_query(rank);
  const RunningSoftmax state = start_softmax(rank, queries, rank.problem().dim_v);
  attend(rank, queries, every_key(rank), state);
  finish_attention(rank, state, rank.get("out"), rank.get("lse"));
}

void backward(Rank& rank) {
  const QueryBlock queries = every_query(rank);
  const KeyBlock keys = every_key(rank);
  const QueryGradients gradients = start_query_gradients(rank, queries);
  const Tensor dk = make_zeros(rank, keys.k.shape);
  const Tensor dv = make_zeros(rank, keys.v.shape);
  const Upstream upstream = local_upstream(rank);
  attend_backward(rank, queries, keys, upstream, gradients.with(dk, dv));
  store_query_gradients(rank, queries, gradients);
  store_sink_gradients(rank, queries, upstream, {});
  store_turned_back(rank, Side::kKeys, positions_of(keys.chunks), dk, rank.get("dk"));
  rank.device().copy(dv, rank.get("dv"));
}

Contract contract(const Case& value) {
  const Problem& problem = value.problem;
  return {.precision = attention_precision(problem),
          .partitions = {.queries = even_partition(problem.q, 1),
                         .keys = even_partition(problem.kv, 1),
                         .summed = even_partition(problem.heads, 1)}};
}

Cost cost(const Case& value, int) {
  const Problem& problem = value.problem;
  return {.traffic = std::vector<Traffic>{},
          .kv_resident_bytes = 0,
          .score_elements = visible_products(problem, every_token(problem.q),
                                             every_token(problem.kv), problem.heads)};
}

}  // namespace

const Subject& single_attention() {
  static const Subject subject{
      .name = "single_attention",
      .op = "attention",
      .summary = "attention on one rank",
      .axes = {},
      .any_views = true,
      .contract = contract,
      .cost = cost,
      .unsupported = [](const Case& value) { return foreign_axis(value.placement.mesh, {}); },
      .shard = [](const Case&, const TensorSpec& tensor, int) { return whole(tensor); },
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
