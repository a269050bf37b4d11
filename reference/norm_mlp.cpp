#include "reference/norm_mlp.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/model/edit.h"
#include "reference/hypotheses.h"

namespace shardproof {
namespace {

constexpr std::array<std::string_view, 10> kKeys{
    "tokens", "features", "hidden", "outputs", "norm", "epsilon", "dtype", "data", "seed", "edit"};
constexpr double kLeastEpsilon = 1e-12;  // its root is far from the limits of every accumulator

std::vector<TensorSpec> tensors(const Problem& p) {
  // Every input and its gradient.
  struct Input {
    std::string_view name, gradient;
    Role role;
    Shape shape;
    int value_power = 0;
  };
  std::vector<Input> inputs{{"x", "dx", Role::kActivation, {p.tokens, p.features}},
                            {"gamma", "dgamma", Role::kBias, {p.features}}};
  if (is_layer_norm(p)) inputs.push_back({"beta", "dbeta", Role::kBias, {p.features}});
  inputs.push_back({"w1", "dw1", Role::kWeight, {p.features, p.hidden}});
  inputs.push_back({"w2", "dw2", Role::kWeight, {p.hidden, p.outputs}, 1});
  std::vector<TensorSpec> specs;
  const auto add = [&](std::string_view name, TensorKind kind, const Input& like, int power) {
    const bool has_tokens = like.role == Role::kActivation || like.role == Role::kUpstream;
    specs.push_back({name, kind, like.role, p.dtype, like.shape, has_tokens ? 0 : -1, power});
  };
  for (const Input& each : inputs) add(each.name, TensorKind::kInput, each, each.value_power);
  const Shape y{p.tokens, p.outputs};
  add("dy", TensorKind::kUpstream, {"", "", Role::kUpstream, y}, 0);
  add("y", TensorKind::kOutput, {"", "", Role::kActivation, y}, 1);
  for (const Input& each : inputs) {
    add(each.gradient, TensorKind::kGradient, each, 1 - each.value_power);
  }
  return specs;
}

void repair(Problem& problem) {
  for (Index* extent : {&problem.tokens, &problem.features, &problem.hidden, &problem.outputs}) {
    *extent = std::max<Index>(*extent, 0);
  }
  if (!(problem.epsilon >= kLeastEpsilon && problem.epsilon <= 1)) problem.epsilon = 1e-5;
  repair_edit(problem, tensors(problem));
}

std::string broken_rule(const Problem& problem) {
  const std::array<std::pair<std::string_view, Index>, 4> extents{{{"tokens", problem.tokens},
                                                                   {"features", problem.features},
                                                                   {"hidden", problem.hidden},
                                                                   {"outputs", problem.outputs}}};
  for (const auto& [name, value] : extents) {
    if (value < 0) return fmt::format("{} is {}; allowed: 0 and more", name, value);
  }
  if (!(problem.epsilon >= kLeastEpsilon && problem.epsilon <= 1)) {
    return fmt::format("epsilon is {}; allowed: {} to 1", problem.epsilon, kLeastEpsilon);
  }
  return broken_edit(problem, tensors(problem));
}

double work(const Problem& problem) {
  const double width = static_cast<double>(problem.features + problem.outputs);
  return 3 * static_cast<double>(problem.tokens) * static_cast<double>(problem.hidden) * width;
}

}  // namespace

const Operator& norm_mlp_operator() {
  static const Operator op{"norm_mlp",
                           "LayerNorm or RMSNorm and two linear layers after it",
                           kKeys,
                           tensors,
                           repair,
                           broken_rule,
                           evaluate_norm_mlp,
                           work,
                           norm_mlp_hypotheses()};
  return op;
}

}  // namespace shardproof
