// DeepSpeed-Ulysses (Jacobs et al. 2023): tokens cut along "cp", by any layout; between two
// all-to-alls a rank computes some heads of the whole sequence. Heads are cut as evenly as they
// can be: some ranks have one more, and beyond as many ranks as heads some have none.
#include "parallel_impls/subjects.h"
#include "parallel_impls/ulysses_cost.h"

namespace shardproof {
namespace {

UlyssesGroup group_of(const Case& value, int rank) {
  const Mesh& mesh = value.placement.mesh;
  return {"cp",
          mesh.size("cp"),
          mesh.coordinate(rank, "cp"),
          value.placement.layout,
          every_token(value.problem.q),
          every_token(value.problem.kv)};
}

void forward(Rank& rank) {
  const auto attention = [&](const QueryBlock& queries, const KeyBlock& keys, const View& out,
                             const View& lse) {
    const RunningSoftmax state = start_softmax(rank, queries, rank.problem().dim_v);
    attend(rank, queries, keys, state);
    finish_attention(rank, state, out, lse);
  };
  ulysses_forward(rank, group_of(rank.running(), rank.index()), attention);
}

void backward(Rank& rank) {
  const auto attention = [&](const QueryBlock& queries, const KeyBlock& keys,
                             const Upstream& upstream, const QueryGradients& gradients) {
    KeyGradients sums{make_zeros(rank, keys.k.shape), make_zeros(rank, keys.v.shape)};
    attend_backward(rank, queries, keys, upstream, gradients.with(sums.dk, sums.dv));
    store_sink_gradients(rank, queries, upstream, {});
    return sums;
  };
  ulysses_backward(rank, group_of(rank.running(), rank.index()), attention);
}

Contract contract(const Case& value) {
  const Problem& problem = value.problem;
  return {.precision = attention_precision(problem),
          .partitions = {.queries = even_partition(problem.q, 1),
                         .keys = even_partition(problem.kv, 1),
                         .summed = even_partition(problem.heads, value.placement.mesh.size("cp"))}};
}

Cost cost(const Case& value, int rank) {
  const Problem& problem = value.problem;
  const UlyssesGroup group = group_of(value, rank);
  const Heads heads = heads_of(problem, group.size, group.mine);
  return {
      .traffic = ulysses_traffic(problem, group),
      .kv_resident_bytes = ulysses_resident_bytes(problem, group, 0),
      .score_elements = visible_products(problem, group.queries, group.keys, heads.query.count)};
}

}  // namespace

const Subject& ulysses_attention() {
  static const Subject subject{
      .name = "ulysses_attention",
      .op = "attention",
      .summary = "all-to-all: tokens along cp become heads, and back",
      .axes = {"cp"},
      .uses_layout = true,
      .any_views = true,
      .queries_travel = true,
      .contract = contract,
      .cost = cost,
      .unsupported = [](const Case& value) { return foreign_axis(value.placement.mesh, {"cp"}); },
      .shard = [](const Case& value, const TensorSpec& tensor,
                  int rank) { return ulysses_shard(value.problem, tensor, group_of(value, rank)); },
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
