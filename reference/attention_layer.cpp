#include "reference/attention_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/model/edit.h"

namespace shardproof {

const Operator& attention_operator();  // attention.cpp

namespace {

constexpr std::array<std::string_view, 13> kKeys{"batch", "q",    "features", "heads",   "dim",
                                                 "mask",  "bias", "scale",    "softcap", "dtype",
                                                 "data",  "seed", "edit"};

struct Input {
  std::string_view name;
  std::string_view gradient;
  Role role;
  Shape shape;
  int token_dimension = -1;
  int value_power = 0;
};

std::array<Input, 9> inputs(const Problem& p) {
  return {{{"x", "dx", Role::kActivation, {p.batch, p.q, p.features}, 1},
           {"wq", "dwq", Role::kWeight, {p.features, p.heads, p.dim}},
           {"bq", "dbq", Role::kBias, {p.heads, p.dim}},
           {"wk", "dwk", Role::kWeight, {p.features, p.kv_heads, p.dim}},
           {"bk", "dbk", Role::kBias, {p.kv_heads, p.dim}},
           {"wv", "dwv", Role::kWeight, {p.features, p.kv_heads, p.dim_v}},
           {"bv", "dbv", Role::kBias, {p.kv_heads, p.dim_v}},
           {"wo", "dwo", Role::kWeight, {p.heads, p.dim_v, p.features}, -1, 1},
           {"bo", "dbo", Role::kBias, {p.features}, -1, 1}}};
}

std::vector<TensorSpec> tensors(const Problem& p) {
  const Shape y{p.batch, p.q, p.features};
  std::vector<TensorSpec> specs;
  for (const Input& i : inputs(p)) {
    specs.push_back(
        {i.name, TensorKind::kInput, i.role, p.dtype, i.shape, i.token_dimension, i.value_power});
  }
  specs.push_back({"dy", TensorKind::kUpstream, Role::kUpstream, p.dtype, y, 1});
  specs.push_back({"y", TensorKind::kOutput, Role::kActivation, p.dtype, y, 1, 1});
  for (const Input& i : inputs(p)) {
    specs.push_back({i.gradient, TensorKind::kGradient, i.role, p.dtype, i.shape, i.token_dimension,
                     1 - i.value_power});
  }
  return specs;
}

// The attention inside: as many keys as queries.
Problem inner_problem(const Problem& problem) {
  Problem inner = problem;
  inner.kv = problem.q;
  return inner;
}

void repair(Problem& problem) {
  problem.q = std::max<Index>(problem.q, 0);
  problem = inner_problem(problem);
  attention_operator().repair(problem);
  problem.features = std::max<Index>(problem.features, 0);
  if (problem.bias == ScoreBias::kDense) problem.bias = ScoreBias::kNone;
  repair_edit(problem, tensors(problem));
}

std::string broken_rule(const Problem& problem) {
  if (problem.features < 0) {
    return fmt::format("features is {}; allowed: 0 and more", problem.features);
  }
  if (problem.bias == ScoreBias::kDense) {
    return "bias is dense, but attention_layer has no score bias of its own; allowed: none, alibi";
  }
  std::string inner = attention_operator().broken_rule(inner_problem(problem));
  return inner.empty() ? broken_edit(problem, tensors(problem)) : inner;
}

double work(const Problem& p) {
  const double width =
      static_cast<double>(p.heads + p.kv_heads) * static_cast<double>(p.dim + p.dim_v);
  return attention_operator().work(inner_problem(p)) +
         3 * static_cast<double>(p.batch * p.q) * static_cast<double>(p.features) * width;
}

}  // namespace

const Operator& attention_layer_operator() {
  static const Operator op{"attention_layer",
                           "self-attention with its four projections",
                           kKeys,
                           tensors,
                           repair,
                           broken_rule,
                           evaluate_attention_layer,
                           work};
  return op;
}

}  // namespace shardproof
