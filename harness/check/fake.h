// Fakes for tests: an operator shaped like attention whose every value says which keys it depends
// on, a subject that computes it, and right outcomes for tests to spoil.
#pragma once

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "harness/check/property.h"
#include "harness/masks/masks.h"
#include "harness/model/element.h"

namespace shardproof::fake {

inline const Mask* mask_named(std::string_view name) {
  for (const Mask* mask : all_masks()) {
    if (mask->name == name) return mask;
  }
  return nullptr;
}

inline std::vector<TensorSpec> tensors(const Problem& p) {
  const auto spec = [&](std::string_view name, TensorKind kind, Role role, Shape shape, int token) {
    return TensorSpec{name, kind, role, p.dtype, shape, token};
  };
  const Shape queries{p.batch, p.q, p.heads, p.dim};
  const Shape keys{p.batch, p.kv, p.kv_heads, p.dim};
  return {spec("q", TensorKind::kInput, Role::kQuery, queries, 1),
          spec("k", TensorKind::kInput, Role::kKey, keys, 1),
          spec("out", TensorKind::kOutput, Role::kActivation, queries, 1),
          spec("lse", TensorKind::kOutput, Role::kActivation, {p.batch, p.heads, p.q}, 2),
          spec("dq", TensorKind::kGradient, Role::kQuery, queries, 1),
          spec("dk", TensorKind::kGradient, Role::kKey, keys, 1)};
}

// What key `key` contributes to every query that sees it.
inline double content(const Problem& p, Index batch, Index key) {
  const bool edited = p.edit == Edit::kFrom && key >= p.edit_at;
  const auto position = static_cast<std::uint64_t>(batch * p.kv + key) + (edited ? 1000 : 0);
  return 0.5 + static_cast<double>(mix(p.seed + position) >> 40) * 0x1p-24;
}

inline double row(const Problem& p, Index batch, Index query) {
  double sum = 0;
  for (Index key = 0; key < p.kv; ++key) {
    if (visible(p, batch, query, key)) sum += content(p, batch, key);
  }
  return sum;
}

inline double column(const Problem& p, Index batch, Index key) {
  double sum = 0;
  for (Index query = 0; query < p.q; ++query) {
    if (visible(p, batch, query, key)) sum += row(p, batch, query) * content(p, batch, key);
  }
  return sum;
}

// Element `flat` of output or gradient `spec`.
inline double value(const Problem& p, const TensorSpec& spec, Index flat) {
  const auto at = spec.shape.coordinates(flat);
  const Index token = at[static_cast<std::size_t>(spec.token_dimension)];
  const double factor = 1 + 0.01 * static_cast<double>(flat % 7);
  return factor * (spec.name == "dk" ? column(p, at[0], token) : row(p, at[0], token));
}

// Bounds: T1 1e-3, T2 1e-5, sigma 1e-6.
inline Expected evaluate(const Problem& problem, const Contract&, Effort effort) {
  Expected result;
  for (const TensorSpec& spec : tensors(problem)) {
    if (spec.kind == TensorKind::kInput) continue;
    ExpectedTensor tensor;
    tensor.spec = spec;
    const Index count = spec.shape.elements();
    for (Index i = 0; i < count; ++i) tensor.want.push_back(value(problem, spec, i));
    const auto size = static_cast<std::size_t>(count);
    const bool all = effort == Effort::kAll;
    tensor.worst.assign(size, all ? 1e-3 : std::numeric_limits<double>::infinity());
    tensor.likely.assign(size, 1e-5);
    tensor.sigma.assign(size, 1e-6);
    result.tensors.push_back(std::move(tensor));
  }
  return result;
}

inline const Operator& op() {
  static constexpr std::string_view kKeys[] = {"batch", "heads", "q",    "kv",   "dim",
                                               "mask",  "dtype", "data", "seed", "edit"};
  static const Operator result{
      .name = "attention",
      .summary = "sums of visible keys",
      .keys = kKeys,
      .tensors = tensors,
      .repair = [](Problem&) {},
      .broken_rule = [](const Problem&) { return std::string(); },
      .evaluate = evaluate,
      .work = [](const Problem&) { return 1e3; },
  };
  return result;
}

// Runs on any cp ring but refuses 7 ranks; promises everything.
inline Subject subject() {
  Subject result;
  result.name = "fake";
  result.op = "attention";
  result.axes = {"cp"};
  result.uses_layout = true;
  result.contract = [](const Case&) { return Contract{}; };
  result.cost = [](const Case&, int) { return Cost{}; };
  result.unsupported = [](const Case& c) {
    return std::string(c.placement.mesh.ranks() == 7 ? "seven ranks" : "");
  };
  result.shard = [](const Case& c, const TensorSpec& spec, int rank) {
    Shard shard;
    for (int d = 0; d < spec.shape.rank(); ++d) {
      const bool cut = d == spec.token_dimension;
      shard.push_back(owned_positions(c.placement.layout, spec.shape[d],
                                      cut ? c.placement.mesh.size("cp") : 1, cut ? rank : 0));
    }
    return shard;
  };
  return result;
}

inline Case small_case(std::string_view mask = "causal", Index a = 0, Index b = 0) {
  Case result;
  Problem& p = result.problem;
  p.op = &op();
  p.batch = 2;
  p.heads = 2;
  p.kv_heads = 1;
  p.q = p.kv = 8;
  p.dim = 3;
  p.mask = {mask_named(mask), a, b};
  p.seed = 5;
  result.placement.subject = "fake";
  result.placement.world = "fake";
  result.placement.mesh.axes = {{"cp", 4}};
  result.placement.schedule = 100;
  return result;
}

// The right answer of a run that completed.
inline Outcome right_outcome(const Case& c) {
  Outcome result;
  for (ExpectedTensor& tensor : evaluate(c.problem, {}, Effort::kValues).tensors) {
    result.tensors.push_back({tensor.spec, std::move(tensor.want)});
  }
  result.ranks.resize(static_cast<std::size_t>(c.placement.mesh.ranks()));
  return result;
}

// `subject` must outlive the run.
inline Run right_run(const Case& c, const Subject& subject) {
  Run run;
  run.value = c;
  run.subject = &subject;
  run.contract = subject.contract(c);
  run.outcome = right_outcome(c);
  auto expected = std::make_shared<Expected>();
  run.expected = [expected, problem = c.problem](Effort effort) -> const Expected& {
    *expected = evaluate(problem, {}, effort);
    return *expected;
  };
  auto costs = std::make_shared<std::vector<Cost>>();
  run.costs = [costs, c, &subject]() -> const std::vector<Cost>& {
    costs->clear();
    for (int rank = 0; rank < c.placement.mesh.ranks(); ++rank) {
      costs->push_back(subject.cost(c, rank));
    }
    return *costs;
  };
  return run;
}

}  // namespace shardproof::fake
