// Eight: eight numbers that are computed with side by side, so that one evaluation of the attention
// reference serves eight sets of operands. No lane depends on another one.
#pragma once

#include <cmath>
#include <cstdint>

namespace shardproof {

struct Eight {
  static constexpr int kCount = 8;
  typedef double Lanes __attribute__((vector_size(8 * sizeof(double))));
  Lanes lanes{};

  Eight() = default;
  explicit Eight(double value) : lanes(value - Lanes{}) {}  // -0 stays -0
  explicit Eight(const Lanes& values) : lanes(values) {}

  double operator[](int lane) const { return lanes[lane]; }
  void set(int lane, double value) { lanes[lane] = value; }

  Eight& operator+=(const Eight& other) { return lanes += other.lanes, *this; }
  Eight& operator-=(const Eight& other) { return lanes -= other.lanes, *this; }
  Eight& operator*=(const Eight& other) { return lanes *= other.lanes, *this; }
  Eight& operator/=(const Eight& other) { return lanes /= other.lanes, *this; }
  Eight operator-() const { return Eight(-lanes); }
};

inline Eight operator+(const Eight& a, const Eight& b) { return Eight(a.lanes + b.lanes); }
inline Eight operator-(const Eight& a, const Eight& b) { return Eight(a.lanes - b.lanes); }
inline Eight operator*(const Eight& a, const Eight& b) { return Eight(a.lanes * b.lanes); }
inline Eight operator*(const Eight& a, double b) { return Eight(a.lanes * b); }
inline Eight operator*(double a, const Eight& b) { return Eight(a * b.lanes); }
inline Eight operator/(const Eight& a, const Eight& b) { return Eight(a.lanes / b.lanes); }

inline Eight max(const Eight& a, const Eight& b) {
  return Eight(a.lanes < b.lanes ? b.lanes : a.lanes);
}

// x = n ln 2 + r with |r| <= ln(2) / 2: 2^n and e^r - 1, the latter by its Taylor series, whose
// remainder r^14 / 14! is below 2^-56 of it. For |x| <= 708.
struct Exponential {
  typedef std::int64_t Bits __attribute__((vector_size(8 * sizeof(double))));
  Eight power;
  Eight growth;

  explicit Exponential(const Eight& x) {
    constexpr double kRounder = 0x1.8p52;  // adding it rounds to an integer, in the lowest bits
    const Eight::Lanes rounded = x.lanes * 0x1.71547652b82fep0 + kRounder;
    const Eight::Lanes n = rounded - kRounder;
    const Eight::Lanes r = (x.lanes - n * 0x1.62e42fefa38p-1) - n * 0x1.ef35793c7673p-45;
    // Casts between vectors keep the bits.
    const Bits exponent = (reinterpret_cast<Bits>(rounded) << 52) + (std::int64_t{1023} << 52);
    power.lanes = reinterpret_cast<Eight::Lanes>(exponent);
    // e^r - 1 = r (1 + r/2 (1 + r/3 (...)))
    Eight::Lanes sum = 1 + r * (1.0 / 13);
    for (int term = 12; term > 1; --term) sum = 1 + r * (1.0 / term) * sum;
    growth.lanes = r * sum;
  }
};

// Within a few units of the last place; below e^-708 the result is that, above e^708 likewise.
inline Eight exp(const Eight& x) {
  const Eight::Lanes least = x.lanes < -708.0 ? Eight(-708.0).lanes : x.lanes;
  const Exponential at(Eight(least > 708.0 ? Eight(708.0).lanes : least));
  return at.power + at.power * at.growth;
}

// (e^2x - 1) / (e^2x + 1), exact to a few units of the last place near 0, too.
inline Eight tanh(const Eight& x) {
  const Eight::Lanes twice = 2 * (x.lanes < 0 ? -x.lanes : x.lanes);
  const Exponential at(Eight(twice > 80.0 ? Eight(80.0).lanes : twice));
  const Eight::Lanes grown = at.power.lanes * at.growth.lanes + (at.power.lanes - 1);
  const Eight::Lanes result = grown / (grown + 2);
  return Eight(x.lanes < 0 ? -result : result);
}

inline Eight log(const Eight& x) {
  Eight result;
  for (int lane = 0; lane < Eight::kCount; ++lane) result.set(lane, std::log(x[lane]));
  return result;
}

}  // namespace shardproof
