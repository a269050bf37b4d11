// For tests: attention and its gradients in plain double loops, one score at a time.
#pragma once

#include "parallel_impls/subject_fixture.h"

namespace shardproof {

struct Score {
  double p = 0;      // exp(logit) until it is normalised
  double slope = 1;  // of the softcap
  double kept = 1;   // what dropout multiplies p by
};

inline Score plain_score(const Problem& problem, Tensors& t, Index b, Index h, Index i, Index j) {
  if (!visible(problem, b, i, j)) return {0, 0, 0};
  const Index g = h * problem.kv_heads / problem.heads;
  double z = 0;
  for (Index d = 0; d < problem.dim; ++d) z += t["q"].at(b, i, h, d) * t["k"].at(b, j, g, d);
  z *= effective_scale(problem);
  double slope = 1;
  if (problem.softcap != 0) {
    const double bent = std::tanh(z / problem.softcap);
    z = problem.softcap * bent;
    slope = 1 - bent * bent;
  }
  if (problem.bias == ScoreBias::kDense) z += t["bias"].at(h, i, j);
  if (problem.bias == ScoreBias::kAlibi) {
    z -= alibi_slope(problem, h) * std::fabs(static_cast<double>(i - j));
  }
  const bool kept = is_kept(problem.seed, problem.dropout, b, h, i, j);
  return {std::exp(z), slope, kept ? 1 / (1 - problem.dropout) : 0};
}

// One row: out, lse and what it adds to every gradient.
inline void plain_row(const Problem& problem, Tensors& t, Index b, Index h, Index i) {
  const Index g = h * problem.kv_heads / problem.heads;
  std::vector<Score> row;
  const double sink = problem.sink ? std::exp(t["sink"].at(h)) : 0;
  double total = sink;
  for (Index j = 0; j < problem.kv; ++j) {
    row.push_back(plain_score(problem, t, b, h, i, j));
    total += row.back().p;
  }
  t["lse"].at(b, h, i) = std::log(total);
  if (total == 0) return;
  std::vector<double> dp;
  double delta = -t["dlse"].at(b, h, i);
  for (Index j = 0; j < problem.kv; ++j) {
    const double p = row[static_cast<std::size_t>(j)].p /= total;
    dp.push_back(0);
    if (p == 0) continue;
    for (Index d = 0; d < problem.dim_v; ++d) {
      const double dout = row[static_cast<std::size_t>(j)].kept * t["dout"].at(b, i, h, d);
      const double v = row[static_cast<std::size_t>(j)].kept * t["v"].at(b, j, g, d);
      t["out"].at(b, i, h, d) += p * v;
      t["dv"].at(b, j, g, d) += p * dout;
      dp.back() += dout * t["v"].at(b, j, g, d);
    }
    delta += p * dp.back();
  }
  if (problem.sink) t["dsink"].at(h) -= sink / total * delta;
  for (Index j = 0; j < problem.kv; ++j) {
    const auto u = static_cast<std::size_t>(j);
    if (row[u].p == 0) continue;
    const double ds = row[u].p * (dp[u] - delta);
    if (problem.bias == ScoreBias::kDense) t["dbias"].at(h, i, j) += ds;
    for (Index d = 0; d < problem.dim; ++d) {
      const double scaled = ds * row[u].slope * effective_scale(problem);
      t["dq"].at(b, i, h, d) += scaled * t["k"].at(b, j, g, d);
      t["dk"].at(b, j, g, d) += scaled * t["q"].at(b, i, h, d);
    }
  }
}

// Turns a tensor [batch, tokens, heads, dim] by rotary positions, in the direction of `sign`.
inline void plain_turn(const Problem& problem, Side side, double sign, Plain& tensor) {
  const Shape& shape = tensor.shape;
  for (Index i = 0; i < shape.elements(); i += 2) {
    const auto at = shape.coordinates(i);
    const auto position = static_cast<double>(rotary_position(problem, side, at[1]));
    const double exponent = static_cast<double>(at[3]) / static_cast<double>(problem.dim);
    const double angle = sign * position / std::pow(problem.rotary, exponent);
    double& even = tensor.values[static_cast<std::size_t>(i)];
    double& odd = tensor.values[static_cast<std::size_t>(i + 1)];
    const double turned = even * std::cos(angle) - odd * std::sin(angle);
    odd = even * std::sin(angle) + odd * std::cos(angle);
    even = turned;
  }
}

// Adds outputs and gradients to `t`, which holds q, k, v, (bias, sink,) dout and dlse.
inline void plain_attention(const Problem& problem, Tensors& t) {
  t["out"] = Plain(t["dout"].shape);
  t["lse"] = Plain({problem.batch, problem.heads, problem.q});
  for (const char* name : {"q", "k", "v", "bias", "sink"}) {
    t[std::string("d") + name] = Plain(t[name].shape);
  }
  const auto turn = [&](double sign, const char* q, const char* k) {
    if (problem.rotary == 0) return;
    plain_turn(problem, Side::kQueries, sign, t[q]);
    plain_turn(problem, Side::kKeys, sign, t[k]);
  };
  turn(1, "q", "k");
  for (Index b = 0; b < problem.batch; ++b) {
    for (Index h = 0; h < problem.heads; ++h) {
      for (Index i = 0; i < problem.q; ++i) plain_row(problem, t, b, h, i);
    }
  }
  turn(-1, "dq", "dk");
}

inline Tensors expected_attention(const Problem& problem) {
  Tensors tensors = inputs_of(problem);
  plain_attention(problem, tensors);
  return tensors;
}

}  // namespace shardproof
