// A tensor-parallel mlp whose weights come cut for another number of ranks (Placement::stored), as
// a checkpoint of an earlier run holds them: the pieces are dealt to the ranks in order, each unit
// moves to the rank that computes it before the forward pass, and its gradients move back after the
// backward pass. The two numbers need not divide each other.
#include "parallel_impls/hidden_units.h"
#include "parallel_impls/subjects.h"

namespace shardproof {
namespace {

// The units whose weights come to `member` of the ranks along "tp", and which it computes.
Range stored_units(const Case& value, Index member) {
  const Index ranks = value.placement.mesh.size("tp");
  const Index pieces = value.placement.stored > 0 ? value.placement.stored : ranks;
  const Range own = even_part(pieces, ranks, member);
  const Index first = even_part(value.problem.hidden, pieces, own.first).first;
  const Index end = even_part(value.problem.hidden, pieces, own.first + own.count).first;
  return {first, end - first};
}
Range computed_units(const Case& value, Index member) {
  return even_part(value.problem.hidden, value.placement.mesh.size("tp"), member);
}

using UnitsOf = Range (*)(const Case& value, Index member);

// The units that `from` gives to `to`, counted from the first one that `of` has.
Range shared_units(const Range& from, const Range& to, const Range& of) {
  const Index first = std::max(from.first, to.first);
  const Index end = std::min(from.first + from.count, to.first + to.count);
  return end > first ? Range{first - of.first, end - first} : Range{};
}

// Everything that belongs to one unit travels as one row: its weights of w1, b1, wg, bg and w2.
Index row_length(const Problem& problem) {
  return (problem.gated ? 2 : 1) * (problem.features + 1) + problem.outputs;
}

// The weights that these rows [units, row length] consist of.
HiddenWeights weights_in(const Problem& problem, const View& rows) {
  const Index features = problem.features;
  HiddenWeights weights;
  weights.w2 = rows.slice(1, 0, problem.outputs);
  weights.w1 = rows.slice(1, problem.outputs, features).transposed(0, 1);
  weights.b1 = rows.select(1, problem.outputs + features);
  if (!problem.gated) return weights;
  weights.wg = rows.slice(1, problem.outputs + features + 1, features).transposed(0, 1);
  weights.bg = rows.select(1, problem.outputs + 2 * features + 1);
  return weights;
}

void copy_weights(Rank& rank, const HiddenWeights& from, const HiddenWeights& to) {
  Device& device = rank.device();
  device.copy(from.w1, to.w1);
  device.copy(from.b1, to.b1);
  device.copy(from.w2, to.w2);
  if (from.wg.data == nullptr) return;
  device.copy(from.wg, to.wg);
  device.copy(from.bg, to.bg);
}

// Rows for a rank's units.
Tensor make_rows(Rank& rank, const Range& units) {
  return rank.make(rank.problem().dtype, {units.count, row_length(rank.problem())});
}

// The rows of the units that this rank has by `to`, from the ranks that have them by `from`.
Tensor moved(Rank& rank, const View& rows, UnitsOf from, UnitsOf to) {
  const Case& value = rank.running();
  const int mine = rank.coordinate("tp");
  const Range had = from(value, mine);
  const Range wanted = to(value, mine);
  Tensor arrived = make_rows(rank, wanted);
  std::vector<View> sent, received;
  for (int other = 0; other < rank.size("tp"); ++other) {
    const Range outgoing = shared_units(had, to(value, other), had);
    const Range incoming = shared_units(from(value, other), wanted, wanted);
    sent.push_back(rows.slice(0, outgoing.first, outgoing.count));
    received.push_back(arrived.view().slice(0, incoming.first, incoming.count));
  }
  rank.along("tp").all_to_all(sent, received);
  return arrived;
}

void forward(Rank& rank) {
  const Problem& problem = rank.problem();
  const Tensor stored = make_rows(rank, stored_units(rank.running(), rank.coordinate("tp")));
  copy_weights(rank, own_weights(rank), weights_in(problem, stored));
  Tensor rows = moved(rank, stored, stored_units, computed_units);
  const Tensor y = hidden_units_forward(rank, weights_in(problem, rows));
  rank.along("tp").all_reduce(y);
  store_outputs(rank, y);
  rank.keep("rows", std::move(rows));
}

void backward(Rank& rank) {
  const Problem& problem = rank.problem();
  const View& rows = rank.kept("rows");
  const Tensor gradients = rank.make(rows.dtype, rows.shape);
  const Tensor dx =
      hidden_units_backward(rank, weights_in(problem, rows), weights_in(problem, gradients));
  rank.along("tp").all_reduce(dx);
  rank.device().copy(dx, rank.get("dx"));
  const Tensor home = moved(rank, gradients, computed_units, stored_units);
  copy_weights(rank, weights_in(problem, home), own_weight_gradients(rank));
}

Shard shard(const Case& value, const TensorSpec& tensor, int rank) {
  const std::vector<Index> stored =
      indices(stored_units(value, value.placement.mesh.coordinate(rank, "tp")));
  Shard held = whole(tensor);
  const std::string_view name = tensor.name;
  const auto is = [&](std::string_view input) { return name == input || name.substr(1) == input; };
  if (is("w1") || is("wg")) held[1] = stored;
  if (is("b1") || is("bg")) held[0] = stored;
  if (is("w2")) held[0] = stored;
  return held;
}

// Units that stay where they are cost nothing.
Cost cost(const Case& value, int rank) {
  const Problem& problem = value.problem;
  const auto bytes = static_cast<Index>(storage_bytes(accumulator_of(problem.dtype)));
  const Index mine = value.placement.mesh.coordinate(rank, "tp");
  const Range stored = stored_units(value, mine);
  const Range computed = computed_units(value, mine);
  const Index stay = shared_units(stored, computed, stored).count;
  const Index row = row_length(problem) * static_cast<Index>(storage_bytes(problem.dtype));
  return traffic_only({
      {Phase::kForward, "all_to_all", "tp", 1, (stored.count - stay) * row},
      {Phase::kForward, "all_reduce", "tp", 1, problem.tokens * problem.outputs * bytes},
      {Phase::kBackward, "all_reduce", "tp", 1, problem.tokens * problem.features * bytes},
      {Phase::kBackward, "all_to_all", "tp", 1, (computed.count - stay) * row},
  });
}

}  // namespace

const Subject& resharded_column_row_mlp() {
  static const Subject subject{
      .name = "resharded_column_row_mlp",
      .op = "mlp",
      .summary = "weights that come cut for other ranks, moved before and gradients moved back",
      .axes = {"tp"},
      .any_views = true,
      .reshards = true,
      .contract =
          [](const Case& value) {
            return hidden_units_contract(value, value.placement.mesh.size("tp"));
          },
      .cost = cost,
      .unsupported = [](const Case& value) { return foreign_axis(value.placement.mesh, {"tp"}); },
      .shard = shard,
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
