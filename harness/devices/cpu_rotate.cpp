// Rotary positions on the cpu device.
#include "harness/devices/cpu.h"

namespace shardproof {
namespace {

// Turns the pairs of one token's heads, [heads, dim].
template <typename T>
void turn_heads(const std::vector<Turn>& turns, const View& from, const View& to,
                cpu::Scratch& scratch) {
  const cpu::Rows<T> source(from, scratch, 0);
  const cpu::Rows<T> target(to, scratch, 1);
  for (Index head = 0; head < from.shape[0]; ++head) {
    const T* in = source.read(head);
    T* out = target.open(head);
    for (std::size_t pair = 0; pair < turns.size(); ++pair) {
      const T cosine = static_cast<T>(turns[pair].cosine);
      const T sine = static_cast<T>(turns[pair].sine);
      const T a = in[2 * pair];
      const T b = in[2 * pair + 1];
      out[2 * pair] = cosine * a - sine * b;
      out[2 * pair + 1] = sine * a + cosine * b;
    }
    target.write(head);
  }
}

}  // namespace

void CpuDevice::rotate(const Rotation& how, const View& from, const View& to) {
  require(from.shape == to.shape && from.shape.rank() == 4, "rotate takes two [b, n, h, dim]");
  const Shape& shape = from.shape;
  require(static_cast<Index>(how.positions.size()) == shape[1] && shape[3] % 2 == 0,
          "rotate takes a position a token, and pairs");
  const bool wide = from.dtype == DType::kF64 || to.dtype == DType::kF64;
  const DType type = wide ? DType::kF64 : DType::kF32;
  std::vector<Turn> turns(static_cast<std::size_t>(shape[3] / 2));
  for (Index token = 0; token < shape[1]; ++token) {
    const Index position = how.positions[static_cast<std::size_t>(token)];
    for (std::size_t pair = 0; pair < turns.size(); ++pair) {
      turns[pair] = rotary_turn(how.base, shape[3], position, static_cast<Index>(pair), type);
      if (how.back) turns[pair].sine = -turns[pair].sine;
    }
    cpu::in_precision(type, [&](auto zero) {
      for (Index batch = 0; batch < shape[0]; ++batch) {
        turn_heads<decltype(zero)>(turns, from.select(0, batch).select(0, token),
                                   to.select(0, batch).select(0, token), scratch_);
      }
    });
  }
}

}  // namespace shardproof
