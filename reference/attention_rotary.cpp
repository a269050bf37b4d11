// Errors of a turned pair x = c a - s b, y = s a + c b. Cosine and sine are numbers of the
// accumulator's type on both sides, so that only the products and sums round, and what is stored.
#include "reference/attention_rotary.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "reference/carried.h"

namespace shardproof {
namespace {

// Of c a and s b in the elementwise type and of their sum, which is exact among subnormals.
// Multiplying by 1 and 0 is exact.
Family turning_error(const Rounding& type, const Turn& turn, double first, double second) {
  if (turn.sine == 0 && turn.cosine == 1) return {};
  const double sum = std::fabs(first + second);
  first = std::fabs(first);
  second = std::fabs(second);
  const double underflow = type.underflow(first) + type.underflow(second);
  return {type.u * (first + second + sum) + underflow,
          type.u * type.u * (first * first + second * second + sum * sum), underflow};
}

Family stored_error(const Units& units, const Precision& precision, const Turn& turn, double first,
                    double second) {
  const Family turning = turning_error(units.elementwise, turn, first, second);
  if (!units.middle.exists()) return turning;
  Carried error{turning.worst, turning.square, turning.common, 0};
  add_rounding(error, precision.middle, first + second);
  return {error.worst, error.square, error.common};
}

// Sums over the tokens of a batch entry and over the heads of a group meet the errors of `alike`
// equal pairs as one that is so many times as large: (m c)^2 = m times the sum of their squares.
void weigh_equal_pairs(const std::vector<double>& values, const std::vector<std::size_t>& group,
                       std::vector<Family>& errors) {
  using Pair = std::tuple<std::uint64_t, std::uint64_t, std::size_t>;
  std::vector<Pair> pairs;
  for (std::size_t i : group) {
    pairs.emplace_back(std::bit_cast<std::uint64_t>(values[i]),
                       std::bit_cast<std::uint64_t>(values[i + 1]), i);
  }
  std::sort(pairs.begin(), pairs.end());
  for (auto first = pairs.begin(); first != pairs.end();) {
    const auto [a, b, ignored] = *first;
    const auto last = std::find_if(first, pairs.end(), [a, b](const Pair& pair) {
      return std::get<0>(pair) != a || std::get<1>(pair) != b;
    });
    const auto alike = static_cast<double>(last - first);
    for (; first != last; ++first) {
      const std::size_t i = std::get<2>(*first);
      errors[i].square *= alike;
      errors[i + 1].square *= alike;
    }
  }
}

void weigh_equal_pairs(const Problem& problem, Side side, const std::vector<double>& values,
                       std::vector<Family>& errors) {
  const bool queries = side == Side::kQueries;
  const Index tokens = queries ? problem.q : problem.kv;
  const Index heads = queries ? problem.heads : problem.kv_heads;
  const Index sharing = heads / problem.kv_heads;
  for (Index batch = 0; batch < problem.batch; ++batch) {
    for (Index kv_head = 0; kv_head < problem.kv_heads; ++kv_head) {
      for (Index d = 0; d < problem.dim; d += 2) {
        std::vector<std::size_t> group;
        for (Index i = 0; i < tokens * sharing; ++i) {
          const Index token = batch * tokens + i / sharing;
          const Index row = token * heads + kv_head * sharing + i % sharing;
          group.push_back(static_cast<std::size_t>(row * problem.dim + d));
        }
        weigh_equal_pairs(values, group, errors);
      }
    }
  }
}

std::vector<Family> turned_errors(const Problem& problem, Side side,
                                  std::span<const double> operand, const Precision& precision) {
  const Units units(precision);
  std::vector<Family> errors(operand.size());
  std::vector<double> values(operand.size());
  for_each_pair(problem, side, [&](std::size_t i, const Turn& turn) {
    const double a = operand[i];
    const double b = operand[i + 1];
    errors[i] = stored_error(units, precision, turn, turn.cosine * a, -turn.sine * b);
    errors[i + 1] = stored_error(units, precision, turn, turn.sine * a, turn.cosine * b);
    std::tie(values[i], values[i + 1]) = turned(turn, a, b);
  });
  weigh_equal_pairs(problem, side, values, errors);
  return errors;
}

double sum_if_bounded(double c, double a, double s, double b) {
  return a < kUnbounded && b < kUnbounded ? std::fabs(c) * a + std::fabs(s) * b : kUnbounded;
}

// The errors of a and b may be dependent: the standard deviation of a sum is at most the sum of
// both (Minkowski's inequality).
double square_of_sum(double c, double a, double s, double b) {
  return square(sum_if_bounded(c, std::sqrt(a), s, std::sqrt(b)));
}

// Of first + second = c a + s b, given the bounds of a and b.
Bound turned_bound(const Rounding& type, const Turn& turn, double c, const Bound& a, double first,
                   double s, const Bound& b, double second) {
  // A product with infinity may be anything, even one by 0.
  if (!(a.linear < kUnbounded && b.linear < kUnbounded)) return Bound::unbounded();
  Bound bound{sum_if_bounded(c, a.worst, s, b.worst),  sum_if_bounded(c, a.linear, s, b.linear),
              square_of_sum(c, a.square, s, b.square), square_of_sum(c, a.variance, s, b.variance),
              square_of_sum(c, a.energy, s, b.energy), sum_if_bounded(c, a.common, s, b.common)};
  if (bound.worst > 0) bound.add(turning_error(type, turn, first, second));
  return bound;
}

}  // namespace

TurnedErrors::TurnedErrors(const Problem& problem, const AttentionInputs<double>& inputs,
                           const Precision& precision) {
  if (problem.rotary == 0) return;
  q = turned_errors(problem, Side::kQueries, inputs.q, precision);
  k = turned_errors(problem, Side::kKeys, inputs.k, precision);
}

void turn_back(const Problem& problem, const Precision& precision,
               const AttentionValues<double>& values, AttentionBounds& bounds) {
  if (problem.rotary == 0) return;
  const Rounding type = rounding_to(precision.elementwise);
  for (Side side : {Side::kQueries, Side::kKeys}) {
    const std::vector<double>& gradient = side == Side::kQueries ? values.dq : values.dk;
    std::vector<Bound>& all = side == Side::kQueries ? bounds.dq : bounds.dk;
    for_each_pair(problem, side, [&](std::size_t i, const Turn& turn) {
      const auto [c, s] = opposite(turn);
      const double a = gradient[i];
      const double b = gradient[i + 1];
      const Bound first = turned_bound(type, turn, c, all[i], c * a, -s, all[i + 1], -s * b);
      const Bound second = turned_bound(type, turn, s, all[i], s * a, c, all[i + 1], c * b);
      all[i] = first;
      all[i + 1] = second;
    });
  }
}

}  // namespace shardproof
