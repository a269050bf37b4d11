// The collectives by themselves, with their adjoints as backward pass (all_reduce: the gradient is
// handed to every rank; gather and scatter are each other's; a shift goes back).
#include "parallel_impls/precision.h"
#include "parallel_impls/shards.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

std::vector<View> rows_of(const View& matrix) {
  std::vector<View> rows;
  for (Index i = 0; i < matrix.shape[0]; ++i) rows.push_back(matrix.select(0, i));
  return rows;
}

// `mine` goes `distance` ranks on.
void shift(Communicator& group, const View& mine, int distance, const View& target) {
  const int size = group.size();
  const int to = (group.rank() + distance + size) % size;
  const int from = (group.rank() - distance + size) % size;
  Communicator::Exchange exchange = group.start_exchange(mine, to, target, from, 0);
  group.wait(exchange);
}

// target = the sum over ranks of `mine`, added in the accumulator's type.
void sum_over_ranks(Rank& rank, const View& mine, const View& target) {
  const Tensor sum = rank.make(accumulator_of(mine.dtype), mine.shape);
  rank.device().copy(mine, sum);
  rank.along("tp").all_reduce(sum);
  rank.device().copy(sum, target);
}

// target = the sum over ranks of their row for this rank.
void scatter_sums(Rank& rank, const View& rows, const View& target) {
  const Tensor parts = rank.make(accumulator_of(rows.dtype), rows.shape);
  const Tensor sum = rank.make(accumulator_of(rows.dtype), target.shape);
  rank.device().copy(rows, parts);
  rank.along("tp").reduce_scatter(rows_of(parts), sum);
  rank.device().copy(sum, target);
}

// x and y below are without the dimension of this rank's own part.
void forward(Rank& rank) {
  const View x = rank.get("x").select(0, 0);
  const View y = rank.get("y");
  Communicator& group = rank.along("tp");
  const auto root = static_cast<int>(rank.problem().root);
  switch (rank.problem().collective) {
    case Collective::kAllReduce:
      return sum_over_ranks(rank, x, y);
    case Collective::kAllGather:
      return group.all_gather(x, rows_of(y));
    case Collective::kReduceScatter:
      return scatter_sums(rank, x, y.select(0, 0));
    case Collective::kAllToAll:
      return group.all_to_all(rows_of(x), rows_of(y.select(0, 0)));
    case Collective::kBroadcast:
      if (group.rank() == root) rank.device().copy(x, y);
      return group.broadcast(y, root);
    case Collective::kRingShift:
      return shift(group, x, 1, y.select(0, 0));
  }
}

void backward(Rank& rank) {
  const View dx = rank.get("dx").select(0, 0);
  const View dy = rank.get("dy");
  Device& device = rank.device();
  Communicator& group = rank.along("tp");
  switch (rank.problem().collective) {
    case Collective::kAllReduce:
      return device.copy(dy, dx);
    case Collective::kAllGather:
      return device.copy(dy.select(0, group.rank()), dx);
    case Collective::kReduceScatter:
      return group.all_gather(dy.select(0, 0), rows_of(dx));
    case Collective::kAllToAll:
      return group.all_to_all(rows_of(dy.select(0, 0)), rows_of(dx));
    case Collective::kBroadcast:
      if (group.rank() == rank.problem().root) return device.copy(dy, dx);
      return device.fill(dx, 0);
    case Collective::kRingShift:
      return shift(group, dy.select(0, 0), -1, dx);
  }
}

// Tensors whose first dimension counts parts are cut along it, except what everybody gets.
Shard shard(const Case& value, const TensorSpec& tensor, int rank) {
  const Collective kind = value.problem.collective;
  const bool is_y = tensor.name == "y" || tensor.name == "dy";
  const bool replicated = kind == Collective::kAllReduce || kind == Collective::kAllGather ||
                          kind == Collective::kBroadcast;
  Shard held = whole(tensor);
  if (!is_y || !replicated) held[0] = {value.placement.mesh.coordinate(rank, "tp")};
  return held;
}

Cost cost(const Case& value, int) {
  const Problem& problem = value.problem;
  const auto io_bytes = static_cast<Index>(storage_bytes(problem.dtype));
  const auto sum_bytes = static_cast<Index>(storage_bytes(accumulator_of(problem.dtype)));
  const Index one = problem.count * io_bytes;
  const Index others = (problem.parts - 1) * one;  // all_to_all: a rank's own part stays
  const Phase there = Phase::kForward;
  const Phase back = Phase::kBackward;
  switch (problem.collective) {
    case Collective::kAllReduce:
      return traffic_only({{there, "all_reduce", "tp", 1, problem.count * sum_bytes}});
    case Collective::kAllGather:
      return traffic_only({{there, "all_gather", "tp", 1, one}});
    case Collective::kReduceScatter:
      return traffic_only(
          {{there, "reduce_scatter", "tp", 1, problem.parts * problem.count * sum_bytes},
           {back, "all_gather", "tp", 1, one}});
    case Collective::kAllToAll:
      return traffic_only(
          {{there, "all_to_all", "tp", 1, others}, {back, "all_to_all", "tp", 1, others}});
    case Collective::kBroadcast:
      return traffic_only({{there, "broadcast", "tp", 1, one}});
    case Collective::kRingShift:
      return traffic_only({{there, "send", "tp", 1, one}, {back, "send", "tp", 1, one}});
  }
  return {};
}

std::string unsupported(const Case& value) {
  if (value.placement.mesh.size("tp") != value.problem.parts) {
    return "a collective of n parts needs n ranks along tp";
  }
  return foreign_axis(value.placement.mesh, {"tp"});
}

void adapt(Case& value) {
  value.problem.parts = value.placement.mesh.size("tp");
  value.problem.root = std::min(value.problem.root, value.problem.parts - 1);
}

Contract contract(const Case& value) {
  Contract result;
  result.precision = precision_of(value.problem);
  result.partitions.summed = even_partition(value.problem.parts, value.problem.parts);
  return result;
}

}  // namespace

const Subject& collectives() {
  static const Subject subject{
      .name = "collectives",
      .op = "collective",
      .summary = "one collective along tp and its adjoint",
      .axes = {"tp"},
      .contract = contract,
      .cost = cost,
      .unsupported = unsupported,
      .adapt = adapt,
      .shard = shard,
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
