// An mlp with the kernel of a plugin: by itself, and for the hidden units of one rank (Shoeybi et
// al. 2019).
#include <array>

#include "harness/plugin/kernels.h"
#include "harness/plugin/problem.h"
#include "parallel_impls/column_row.h"

namespace shardproof {
namespace {

// The DLTensors of one call and what they borrow from.
class Call {
 public:
  explicit Call(Rank& rank) : plain(problem_of(rank.running())) {
    const HiddenWeights weights = own_weights(rank);
    units.x = lend(rank.get("x"));
    units.w1 = lend(weights.w1);
    units.b1 = lend(weights.b1);
    units.wg = lend(weights.wg);
    units.bg = lend(weights.bg);
    units.w2 = lend(weights.w2);
  }

  DLTensor lend(const View& view) {
    if (view.data == nullptr) return {};
    views_[used_] = view;
    return views_[used_++].dlpack();
  }

  shardproof_mlp units{};
  shardproof_problem plain;

 private:
  std::array<View, 16> views_;
  std::size_t used_ = 0;
};

// A block without a token, a feature, a hidden unit or an output is nothing to bother a kernel
// with.
bool is_empty(Rank& rank) {
  return rank.get("x").elements() == 0 || rank.get("w1").elements() == 0 ||
         rank.get("w2").elements() == 0;
}

// y without b2 of these hidden units where others have more, else all of it.
void forward(const PluginEntry& entry, Rank& rank, bool is_alone) {
  const Problem& problem = rank.problem();
  Tensor y = rank.make(accumulator_of(problem.dtype), {problem.tokens, problem.outputs});
  const bool is_plugged = !is_empty(rank);
  if (is_plugged) {
    Call call(rank);
    if (is_alone) call.units.b2 = call.lend(rank.get("b2"));
    call.units.y = call.lend(y);
    expect_success(entry.on(rank).mlp_forward(&call.units, &call.plain), "mlp_forward");
  } else {
    y = hidden_units_forward(rank);
  }
  if (is_alone && is_plugged) return rank.device().copy(y, rank.get("y"));
  if (!is_alone) rank.along("tp").all_reduce(y);
  store_outputs(rank, y);
}

// The backward pass of shardproof, which needs the activations.
Tensor own_backward(Rank& rank) {
  hidden_units_forward(rank);
  return hidden_units_backward(rank);
}

// The gradients, each with a work tensor that the plugin writes. Returns dx.
Tensor plugged_backward(const shardproof_subject& subject, Rank& rank) {
  const DType type = accumulator_of(rank.problem().dtype);
  const HiddenWeights gradients = own_weight_gradients(rank);
  const View db2 = rank.get("db2");
  Call call(rank);
  call.units.b2 = call.lend(rank.get("b2"));
  call.units.dy = call.lend(rank.get("dy"));
  Tensor dx = rank.make(type, rank.get("x").shape);
  call.units.dx = call.lend(dx);
  const std::array<std::pair<const View*, DLTensor*>, 6> targets{{
      {&gradients.w1, &call.units.dw1},
      {&gradients.b1, &call.units.db1},
      {&gradients.wg, &call.units.dwg},
      {&gradients.bg, &call.units.dbg},
      {&gradients.w2, &call.units.dw2},
      {&db2, &call.units.db2},
  }};
  std::array<Tensor, 6> written;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].first->data == nullptr) continue;
    written[i] = rank.make(type, targets[i].first->shape);
    *targets[i].second = call.lend(written[i]);
  }
  expect_success(subject.mlp_backward(&call.units, &call.plain), "mlp_backward");
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (written[i]) rank.device().copy(written[i], *targets[i].first);
  }
  return dx;
}

void backward(const PluginEntry& entry, Rank& rank, bool is_alone) {
  const shardproof_subject& subject = entry.on(rank);
  const bool is_plugged = subject.mlp_backward != nullptr && !is_empty(rank);
  const Tensor dx = is_plugged ? plugged_backward(subject, rank) : own_backward(rank);
  if (!is_alone) rank.along("tp").all_reduce(dx);
  rank.device().copy(dx, rank.get("dx"));
}

}  // namespace

const std::vector<KernelPlace>& mlp_places() {
  static const std::vector<KernelPlace> places{
      {SHARDPROOF_ALONE, "", "by itself", {}},
      {SHARDPROOF_COLUMN_ROW, "@column_row", "for hidden units cut along tp", {"tp"}},
  };
  return places;
}

void make_mlp_subject(const PluginEntry& entry, const KernelPlace& place, Subject& subject) {
  const bool is_alone = place.place == SHARDPROOF_ALONE;
  subject.axes = place.axes;
  subject.any_views = entry.described().any_strides != 0;
  subject.contract = [entry](const Case& value) {
    return promised(entry.described(), value,
                    hidden_units_contract(value, value.placement.mesh.size("tp")));
  };
  subject.cost = [is_alone](const Case& value, int rank) {
    return is_alone ? traffic_only({}) : column_row_cost(value, rank);
  };
  subject.unsupported = [entry, axes = place.axes](const Case& value) {
    const std::string why = foreign_axis(value.placement.mesh, axes);
    return why.empty() ? missing_feature(entry.described(), value) : why;
  };
  subject.adapt = [entry](Case& value) { remove_features(entry.described(), value); };
  subject.shard = column_row_shard;
  subject.forward = [entry, is_alone](Rank& rank) { forward(entry, rank, is_alone); };
  subject.backward = [entry, is_alone](Rank& rank) { backward(entry, rank, is_alone); };
}

}  // namespace shardproof
