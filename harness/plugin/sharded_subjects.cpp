// Implementations of plugins that do their own communication. How tensors are cut is the same as
// for shardproof's own.
#include <vector>

#include "harness/plugin/kernels.h"
#include "harness/plugin/problem.h"
#include "harness/plugin/session.h"
#include "harness/plugin/tensors.h"
#include "parallel_impls/column_row.h"
#include "parallel_impls/ring_heads.h"

namespace shardproof {

const Subject& collectives();  // of parallel_impls/subjects.def

namespace {

// The outputs as the forward pass left them: they are final.
std::vector<Tensor> outputs_of(Rank& rank) {
  std::vector<Tensor> outputs;
  for (const TensorSpec& spec : rank.problem().op->tensors(rank.problem())) {
    if (spec.kind != TensorKind::kOutput) continue;
    const View output = rank.get(spec.name);
    outputs.push_back(rank.make(output.dtype, output.shape));
    rank.device().copy(output, outputs.back());
  }
  return outputs;
}

void forward(const PluginEntry& entry, Rank& rank) {
  RankSession(rank).call(entry.on(rank).sharded_forward, "sharded_forward");
}

void backward(const PluginEntry& entry, Rank& rank) {
  const std::vector<Tensor> before = outputs_of(rank);
  RankSession(rank).call(entry.on(rank).sharded_backward, "sharded_backward");
  const std::vector<Tensor> after = outputs_of(rank);
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (same_bits(before[i], after[i])) continue;
    throw std::runtime_error("sharded_backward: wrote to an output of the forward pass");
  }
}

Contract default_contract(const Case& value) {
  const Mesh& mesh = value.placement.mesh;
  if (value.problem.op->name == "attention") {
    return ring_contract(value, mesh.size("cp"), mesh.size("tp"));
  }
  if (value.problem.op->name == "mlp") return hidden_units_contract(value, mesh.size("tp"));
  return collectives().contract(value);
}

}  // namespace

void make_sharded_subject(const PluginEntry& entry, std::vector<std::string_view> axes,
                          Subject& subject) {
  const bool is_collective = subject.op == "collective";
  subject.axes = axes;
  subject.uses_layout = entry.described().any_layout != 0;
  subject.any_views = entry.described().any_strides != 0;
  subject.contract = [entry](const Case& value) {
    return promised(entry.described(), value, default_contract(value));
  };
  subject.cost = [](const Case&, int) { return Cost{}; };
  subject.unsupported = [=](const Case& value) {
    std::string why = foreign_axis(value.placement.mesh, axes);
    if (why.empty() && is_collective) why = collectives().unsupported(value);
    return why.empty() ? missing_feature(entry.described(), value) : why;
  };
  subject.adapt = [=](Case& value) {
    remove_features(entry.described(), value);
    if (is_collective) collectives().adapt(value);
  };
  subject.shard = is_collective               ? collectives().shard
                  : subject.op == "attention" ? ring_shard
                                              : column_row_shard;
  subject.forward = [entry](Rank& rank) { forward(entry, rank); };
  subject.backward = [entry](Rank& rank) { backward(entry, rank); };
}

}  // namespace shardproof
