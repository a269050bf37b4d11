#include "harness/model/bound.h"

#include <initializer_list>
#include <vector>

namespace shardproof {
namespace {

std::uint64_t hash_step(std::uint64_t hash, double value) {
  // Adding zero turns -0 into +0: the two round alike.
  hash = (hash ^ std::bit_cast<std::uint64_t>(value + 0.0)) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 29);
}

// The longest run of one hash. A collision can only raise the result, which loosens T2.
double longest_run(std::vector<std::uint64_t>& hashes) {
  std::sort(hashes.begin(), hashes.end());
  std::size_t longest = 1;
  for (std::size_t first = 0; first < hashes.size();) {
    std::size_t last = first;
    while (last < hashes.size() && hashes[last] == hashes[first]) ++last;
    longest = std::max(longest, last - first);
    first = last;
  }
  return static_cast<double>(longest);
}

// The rounding of a value of type `from`, already rounded to `stored`, on entering a product that
// rounds its operands to `operand`.
Rounding on_entry(DType from, DType stored, DType operand) {
  const DType held = format(stored).precision < format(from).precision ? stored : from;
  return narrowing(held, operand);
}

}  // namespace

Rounding rounding_to(DType type) {
  const Format& f = format(type);
  return {f.u(), f.eta(), f.minimum_normal()};
}

Rounding narrowing(DType from, DType to) {
  // The significands decide: bf16 and tf32 have f32's exponents and yet their own eta.
  return format(to).precision < format(from).precision ? rounding_to(to) : Rounding{};
}

Units::Units(const Precision& p)
    : accumulator{rounding_to(p.accumulator).u,
                  rounding_to(p.accumulator).eta * (p.truncating ? 2 : 1), p.truncating},
      elementwise(rounding_to(p.elementwise)),
      lse(rounding_to(p.lse)),
      reduction(rounding_to(p.reduction)),
      reduction_narrower(narrowing(p.accumulator, p.reduction).exists()),
      operand(narrowing(p.io, p.operand)),
      score(narrowing(p.elementwise, p.score)),
      probability(narrowing(p.elementwise, p.probability)),
      probability_operand(on_entry(p.elementwise, p.probability, p.operand)),
      score_gradient(narrowing(p.elementwise, p.score_gradient)),
      score_gradient_operand(on_entry(p.elementwise, p.score_gradient, p.operand)),
      saved_out(narrowing(p.accumulator, p.saved_out)),
      block_out(narrowing(p.accumulator, p.block_out)),
      query_gradient(narrowing(p.accumulator, p.query_gradient)),
      kv_gradient(narrowing(p.accumulator, p.kv_gradient)),
      middle(narrowing(p.accumulator, p.middle)),
      middle_operand(on_entry(p.accumulator, p.middle, p.operand)) {
  // A unit in the last place is at most 2 u relative.
  const double last_place = 2 * elementwise.u;
  exp_error = last_place * p.ulp_exp;
  log_error = last_place * p.ulp_log;
  tanh_error = last_place * p.ulp_tanh;
  erf_error = last_place * p.ulp_erf;
  double largest = 0;
  for (DType type :
       {p.io, p.accumulator, p.elementwise, p.score, p.probability, p.score_gradient, p.saved_out,
        p.lse, p.block_out, p.query_gradient, p.kv_gradient, p.operand, p.middle, p.reduction}) {
    largest = std::max(largest, format(type).u());
  }
  inflation = 1 + kSecondOrder * largest;
}

// A reference of f64 is computed in long double and then stored as double: one rounding as well.
OutputType::OutputType(DType type, const Precision& precision)
    : rounding(type == DType::kF64 ? rounding_to(type) : narrowing(precision.accumulator, type)),
      overflow_threshold(format(type).overflow_threshold),
      inflation(Units(precision).inflation) {}

double row_multiplicity(const double* matrix, Index rows, Index columns) {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(static_cast<std::size_t>(rows));
  for (Index r = 0; r < rows; ++r) {
    const double* row = matrix + r * columns;
    std::uint64_t hash = 0;
    bool zero = true;
    for (Index c = 0; c < columns; ++c) {
      hash = hash_step(hash, row[c]);
      zero = zero && row[c] == 0;
    }
    if (!zero) hashes.push_back(hash);
  }
  return longest_run(hashes);
}

double column_multiplicity(const double* matrix, Index rows, Index columns) {
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(columns));
  std::vector<bool> zero(static_cast<std::size_t>(columns), true);
  for (Index r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < hashes.size(); ++c) {
      const double value = matrix[r * columns + static_cast<Index>(c)];
      hashes[c] = hash_step(hashes[c], value);
      zero[c] = zero[c] && value == 0;
    }
  }
  std::size_t kept = 0;
  for (std::size_t c = 0; c < hashes.size(); ++c) {
    if (!zero[c]) hashes[kept++] = hashes[c];
  }
  hashes.resize(kept);
  return longest_run(hashes);
}

}  // namespace shardproof
