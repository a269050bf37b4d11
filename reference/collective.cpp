#include "reference/collective.h"

#include <fmt/format.h>

#include <array>

#include "harness/model/element.h"
#include "reference/carried.h"

namespace shardproof {
namespace {

constexpr std::array<std::string_view, 7> kKeys{"collective", "parts", "count", "root",
                                                "dtype",      "data",  "seed"};

Shape input_shape(const Problem& p) {
  const bool blocks =
      p.collective == Collective::kReduceScatter || p.collective == Collective::kAllToAll;
  return blocks ? Shape{p.parts, p.parts, p.count} : Shape{p.parts, p.count};
}

Shape output_shape(const Problem& p) {
  switch (p.collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
      return {p.count};
    case Collective::kAllToAll:
      return {p.parts, p.parts, p.count};
    default:
      return {p.parts, p.count};
  }
}

std::vector<TensorSpec> tensors(const Problem& p) {
  const Shape x = input_shape(p);
  const Shape y = output_shape(p);
  return {{"x", TensorKind::kInput, Role::kActivation, p.dtype, x, -1},
          {"dy", TensorKind::kUpstream, Role::kUpstream, p.dtype, y, -1},
          {"y", TensorKind::kOutput, Role::kActivation, p.dtype, y, -1},
          {"dx", TensorKind::kGradient, Role::kActivation, p.dtype, x, -1}};
}

void repair(Problem& problem) {
  problem.parts = std::max<Index>(problem.parts, 1);
  problem.count = std::max<Index>(problem.count, 0);
  const bool rooted = problem.collective == Collective::kBroadcast;
  problem.root = rooted ? std::clamp<Index>(problem.root, 0, problem.parts - 1) : 0;
}

std::string broken_rule(const Problem& problem) {
  if (problem.parts < 1) return fmt::format("parts is {}; allowed: 1 and more", problem.parts);
  if (problem.count < 0) return fmt::format("count is {}; allowed: 0 and more", problem.count);
  const bool rooted = problem.collective == Collective::kBroadcast;
  const Index last = rooted ? problem.parts - 1 : 0;
  if (problem.root < 0 || problem.root > last) {
    return fmt::format("root is {}; allowed: 0 to {} (below parts for broadcast, 0 otherwise)",
                       problem.root, last);
  }
  return "";
}

double work(const Problem& problem) {
  return 2 * static_cast<double>(input_shape(problem).elements());
}

// The element of y to which the element of x at [part, rest] belongs, or -1: none.
Index target_of(const Problem& p, Index part, Index rest) {
  switch (p.collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
      return rest;
    case Collective::kAllGather:
      return part * p.count + rest;
    case Collective::kAllToAll: {
      const Index other = rest / p.count;
      return (other * p.parts + part) * p.count + rest % p.count;
    }
    case Collective::kBroadcast:
      return part == p.root ? rest : -1;
    case Collective::kRingShift:
      return (part + 1) % p.parts * p.count + rest;
  }
  return -1;
}

// One element of y and what its rounding depends on.
template <class Real>
struct Sum {
  Real value = 0;
  double terms = 0;  // that are not zero
  double magnitude = 0;
  double squares = 0;
  int grid = kNoGrid;  // all terms are multiples of 2^grid

  void add(double term) {
    value += static_cast<Real>(term);
    terms += term != 0;
    magnitude += std::fabs(term);
    squares += term * term;
    grid = std::min(grid, lowest_bit(term));
  }
};

template <class Real>
Bound bound_of(const Sum<Real>& sum, const ProductRule& rule) {
  Bound bound;
  const Precision& precision = rule.precision;
  const Format& f = format(precision.reduction);
  if (!(sum.magnitude < f.overflow_threshold)) {
    bound.add(kUnbounded);
    return bound;
  }
  const bool on_grid = sum.grid > f.minimum_exponent - f.precision;
  if (on_grid && sum.magnitude <= std::ldexp(1.0, f.precision + sum.grid)) return bound;
  const bool narrower = narrowing(precision.io, precision.reduction).exists();
  if (sum.terms == 1 && narrower) {
    bound.add(half_ulp(precision.reduction, sum.magnitude));
  }
  add_all_reduce(bound, rule.units.reduction, narrower, sum.terms, sum.magnitude, sum.squares,
                 static_cast<double>(sum.value));
  return bound;
}

bool sums(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter;
}

// Sums are in precision.reduction whatever the accumulator of matrix products.
ProductRule rule_of(const Contract& contract, Effort effort) {
  Precision precision = contract.precision;
  precision.accumulator = precision.reduction;
  return ProductRule(precision, effort != Effort::kValues);
}

template <class Real>
Expected evaluate_in(const Problem& problem, const Contract& contract, Effort effort) {
  const std::vector<TensorSpec> specs = tensors(problem);
  const std::vector<double> x = whole_tensor(problem, specs[0]);
  const std::vector<double> dy = whole_tensor(problem, specs[1]);
  const ProductRule rule = rule_of(contract, effort);
  std::vector<Sum<Real>> elements(static_cast<std::size_t>(specs[2].shape.elements()));
  std::vector<Real> dx(x.size());
  const Index per_part = static_cast<Index>(x.size()) / problem.parts;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto at = static_cast<Index>(i);
    const Index target = target_of(problem, at / per_part, at % per_part);
    if (target < 0) continue;
    elements[static_cast<std::size_t>(target)].add(x[i]);
    dx[i] = static_cast<Real>(dy[static_cast<std::size_t>(target)]);
  }
  std::vector<Real> y;
  std::vector<Bound> bounds;
  for (const Sum<Real>& element : elements) {
    y.push_back(element.value);
    if (!rule.with_errors) continue;
    bounds.push_back(sums(problem.collective) ? bound_of(element, rule) : Bound{});
  }
  const std::vector<Bound> exact(rule.with_errors ? dx.size() : 0);
  Expected expected;
  expected.tensors.push_back(output_tensor(specs[2], y, bounds, effort, false, rule));
  expected.tensors.push_back(output_tensor(specs[3], dx, exact, effort, false, rule));
  return expected;
}

Expected evaluate(const Problem& problem, const Contract& contract, Effort effort) {
  if (problem.dtype == DType::kF64) return evaluate_in<long double>(problem, contract, effort);
  return evaluate_in<double>(problem, contract, effort);
}

}  // namespace

const Operator& collective_operator() {
  static const Operator op{
      "collective", "one collective operation over contributions of several ranks",
      kKeys,        tensors,
      repair,       broken_rule,
      evaluate,     work};
  return op;
}

}  // namespace shardproof
