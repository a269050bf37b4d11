// Attention over tokens cut along "cp" that gathers every key and value (context parallelism as in
// Llama 3, 2024): correct, simple, and without a bound on what a rank keeps of others, which is why
// the ring exists.
#include "parallel_impls/ring_cost.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

// One tensor a rank of "cp", shaped like that rank's block of `mine`.
std::vector<Tensor> make_blocks(Rank& rank, const View& mine, DType dtype) {
  std::vector<Tensor> blocks;
  for (int owner = 0; owner < rank.size("cp"); ++owner) {
    blocks.push_back(rank.make(dtype, block_shape(rank, mine, owner)));
  }
  return blocks;
}

std::vector<View> views_of(const std::vector<Tensor>& tensors) {
  return {tensors.begin(), tensors.end()};
}

std::vector<Tensor> gathered(Rank& rank, std::string_view name) {
  const View mine = rank.get(name);
  std::vector<Tensor> blocks = make_blocks(rank, mine, mine.dtype);
  for (const Tensor& block : blocks) rank.holds_remote_kv(block);
  Tensor room;
  rank.along("cp").all_gather(dense_of(rank, mine, room), views_of(blocks));
  return blocks;
}

// dk or dv, shaped like `mine`, of this rank's block from every rank's part of it.
Tensor scattered_sums(Rank& rank, const std::vector<Tensor>& parts, const View& mine) {
  Tensor sum = rank.make(accumulator_of(mine.dtype), mine.shape);
  rank.along("cp").reduce_scatter(views_of(parts), sum);
  return sum;
}

void forward(Rank& rank) {
  const QueryBlock queries = own_queries(rank);
  const RunningSoftmax state = start_softmax(rank, queries, rank.problem().dim_v);
  const std::vector<Tensor> k = gathered(rank, "k");
  const std::vector<Tensor> v = gathered(rank, "v");
  for (std::size_t owner = 0; owner < k.size(); ++owner) {
    const auto chunks = key_chunks(rank.running(), rank.size("cp"), static_cast<int>(owner));
    attend(rank, queries, {k[owner], v[owner], chunks}, state);
  }
  finish_attention(rank, state, rank.get("out"), rank.get("lse"));
}

void backward(Rank& rank) {
  const QueryBlock queries = own_queries(rank);
  const Upstream upstream = local_upstream(rank);
  const QueryGradients gradients = start_query_gradients(rank, queries);
  const std::vector<Tensor> k = gathered(rank, "k");
  const std::vector<Tensor> v = gathered(rank, "v");
  const DType sum_dtype = accumulator_of(rank.problem().dtype);
  const std::vector<Tensor> dk = make_blocks(rank, rank.get("dk"), sum_dtype);
  const std::vector<Tensor> dv = make_blocks(rank, rank.get("dv"), sum_dtype);
  for (std::size_t owner = 0; owner < k.size(); ++owner) {
    rank.device().fill(dk[owner], 0);
    rank.device().fill(dv[owner], 0);
    const auto chunks = key_chunks(rank.running(), rank.size("cp"), static_cast<int>(owner));
    attend_backward(rank, queries, {k[owner], v[owner], chunks}, upstream,
                    gradients.with(dk[owner], dv[owner]));
  }
  store_query_gradients(rank, queries, gradients);
  store_sink_gradients(rank, queries, upstream, "cp");
  const Tensor dk_sum = scattered_sums(rank, dk, rank.get("dk"));
  store_key_gradients(rank, dk_sum, scattered_sums(rank, dv, rank.get("dv")));
}

Cost cost(const Case& value, int rank) {
  const Problem& problem = value.problem;
  const int ranks = value.placement.mesh.size("cp");
  const int mine = value.placement.mesh.coordinate(rank, "cp");
  const Index own_bytes = block_elements(value, ranks, mine, problem.kv_heads) *
                          static_cast<Index>(storage_bytes(problem.dtype));
  const Index sum_bytes = problem.batch * problem.kv * problem.kv_heads *
                          (problem.dim + problem.dim_v) *
                          static_cast<Index>(storage_bytes(accumulator_of(problem.dtype)));
  std::vector<Traffic> traffic{{Phase::kForward, "all_gather", "cp", 2, own_bytes},
                               {Phase::kBackward, "all_gather", "cp", 2, own_bytes},
                               {Phase::kBackward, "reduce_scatter", "cp", 2, sum_bytes}};
  add_sink_traffic(value, ranks, problem.heads, traffic);
  return {.traffic = std::move(traffic),
          .kv_resident_bytes = std::nullopt,
          .score_elements = ring_products(value, ranks, mine, problem.heads)};
}

}  // namespace

const Subject& allgather_attention() {
  static const Subject subject{
      .name = "allgather_attention",
      .op = "attention",
      .summary = "every rank gathers all keys and values along cp",
      .axes = {"cp"},
      .uses_layout = true,
      .any_views = true,
      .contract =
          [](const Case& value) {
            return ring_contract(value, value.placement.mesh.size("cp"), 1);
          },
      .cost = cost,
      .unsupported = [](const Case& value) { return foreign_axis(value.placement.mesh, {"cp"}); },
      .shard = ring_shard,
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
