// Rotary positions in the attention reference: q and k are turned by the positions of their tokens
// before anything else happens, their gradients are turned back at the end. Attention itself knows
// nothing of it: to its bounds, turned q and k are operands that carry an error.
#pragma once

#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "reference/attention.h"

namespace shardproof {

// Calls visit(first element of a pair, turn) for every pair of a tensor [batch, tokens, heads, dim]
// of this side. Pairs of one token and place turn alike.
template <class Visit>
void for_each_pair(const Problem& problem, Side side, Visit&& visit) {
  const bool queries = side == Side::kQueries;
  const Index tokens = queries ? problem.q : problem.kv;
  const Index heads = queries ? problem.heads : problem.kv_heads;
  const DType type = accumulator_of(problem.dtype);
  for (Index token = 0; token < tokens; ++token) {
    const Index position = rotary_position(problem, side, token);
    for (Index pair = 0; pair < problem.dim / 2; ++pair) {
      const Turn turn = rotary_turn(problem.rotary, problem.dim, position, pair, type);
      for (Index batch = 0; batch < problem.batch; ++batch) {
        for (Index head = 0; head < heads; ++head) {
          const Index row = (batch * tokens + token) * heads + head;
          visit(static_cast<std::size_t>(row * problem.dim + 2 * pair), turn);
        }
      }
    }
  }
}

inline Turn opposite(const Turn& turn) { return {turn.cosine, -turn.sine}; }

// A pair of elements, turned.
template <class T>
std::pair<T, T> turned(const Turn& turn, const T& a, const T& b) {
  const T cosine = static_cast<T>(turn.cosine);
  const T sine = static_cast<T>(turn.sine);
  return {cosine * a - sine * b, sine * a + cosine * b};
}

// The inputs as the scores are computed from them.
template <class T>
class TurnedInputs {
 public:
  TurnedInputs(const Problem& problem, const AttentionInputs<T>& inputs) : view_(inputs) {
    if (problem.rotary == 0) return;
    view_.q = turn(problem, Side::kQueries, inputs.q, q_);
    view_.k = turn(problem, Side::kKeys, inputs.k, k_);
  }
  TurnedInputs(const TurnedInputs&) = delete;
  TurnedInputs& operator=(const TurnedInputs&) = delete;

  const AttentionInputs<T>& view() const { return view_; }

 private:
  static std::span<const T> turn(const Problem& problem, Side side, std::span<const T> from,
                                 std::vector<T>& to) {
    to.resize(from.size());
    for_each_pair(problem, side, [&](std::size_t i, const Turn& turn) {
      std::tie(to[i], to[i + 1]) = turned(turn, from[i], from[i + 1]);
    });
    return to;
  }

  AttentionInputs<T> view_;
  std::vector<T> q_, k_;
};

// Turns the gradients of turned q and k back into those of q and k.
template <class T>
void turn_back(const Problem& problem, AttentionValues<T>& values) {
  if (problem.rotary == 0) return;
  for (Side side : {Side::kQueries, Side::kKeys}) {
    std::vector<T>& gradient = side == Side::kQueries ? values.dq : values.dk;
    for_each_pair(problem, side, [&](std::size_t i, const Turn& turn) {
      std::tie(gradient[i], gradient[i + 1]) = turned(opposite(turn), gradient[i], gradient[i + 1]);
    });
  }
}

// What a subject's turned q and k may be off by: empty without rotary positions.
struct TurnedErrors {
  std::vector<Family> q, k;

  // `inputs`: not turned.
  TurnedErrors(const Problem& problem, const AttentionInputs<double>& inputs,
               const Precision& precision);
};

// The same for the bounds. `values`: not turned back yet.
void turn_back(const Problem& problem, const Precision& precision,
               const AttentionValues<double>& values, AttentionBounds& bounds);

}  // namespace shardproof
