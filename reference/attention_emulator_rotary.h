// For tests only: turns the pairs of q, k, dq or dk as a contract describes it.
#pragma once

#include <cmath>

#include "reference/attention_emulator.h"

namespace shardproof {

// Real: the type of the arithmetic. Every result is stored in `stored`; `fused`: a sum of two
// products rounds twice instead of three times. `back`: by opposite angles.
template <class Real>
void emulate_turning(const Problem& p, Side side, DType stored, bool fused, bool back,
                     std::vector<double>& tensor) {
  const Index heads = side == Side::kQueries ? p.heads : p.kv_heads;
  const Index tokens = side == Side::kQueries ? p.q : p.kv;
  for (std::size_t i = 0; i + 1 < tensor.size(); i += 2) {
    const auto at = static_cast<Index>(i);
    const Index token = at / (p.dim * heads) % tokens;
    const Turn turn = rotary_turn(p.rotary, p.dim, rotary_position(p, side, token), at % p.dim / 2,
                                  accumulator_of(p.dtype));
    const auto cosine = static_cast<Real>(turn.cosine);
    const auto sine = static_cast<Real>(back ? -turn.sine : turn.sine);
    const auto a = static_cast<Real>(tensor[i]);
    const auto b = static_cast<Real>(tensor[i + 1]);
    const auto store = [&](Real value) { return round_to(stored, static_cast<double>(value)); };
    tensor[i] = store(fused ? std::fma(cosine, a, -(sine * b)) : cosine * a - sine * b);
    tensor[i + 1] = store(fused ? std::fma(sine, a, cosine * b) : sine * a + cosine * b);
  }
}

template <class Real>
NamedTensors emulated_turned_inputs(const Problem& p, NamedTensors inputs, DType stored,
                                    bool fused) {
  if (p.rotary == 0) return inputs;
  emulate_turning<Real>(p, Side::kQueries, stored, fused, false, inputs.find("q")->second);
  emulate_turning<Real>(p, Side::kKeys, stored, fused, false, inputs.find("k")->second);
  return inputs;
}

}  // namespace shardproof
