// For tests: arithmetic as a subject may do it. Matrix products in float (double for f64) in a
// random order of summation, storage types by rounding, sums over parts in any order.
#pragma once

#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "harness/model/contract.h"
#include "harness/model/element.h"
#include "harness/model/operator.h"

namespace shardproof {

// A seeded stream of numbers.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(mix(seed + 1)) {}

  std::uint64_t bits() { return mix(state_ += 0x9e3779b97f4a7c15ull); }
  Index below(Index limit) {
    return static_cast<Index>(bits() % static_cast<std::uint64_t>(limit));
  }
  bool chance(int percent) { return below(100) < percent; }

  std::vector<Index> permutation(Index count) {
    std::vector<Index> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), Index{0});
    for (Index i = count - 1; i > 0; --i) {
      std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(below(i + 1))]);
    }
    return order;
  }

  // [0, count) cut into `parts` sets, some perhaps empty, in no order.
  Partition partition(Index count, Index parts) {
    Partition result(static_cast<std::size_t>(parts));
    for (Index i : permutation(count)) result[static_cast<std::size_t>(below(parts))].push_back(i);
    return result;
  }

 private:
  std::uint64_t state_;
};

template <class F>
struct Dense {
  Index rows = 0;
  Index columns = 0;
  std::vector<F> data;

  Dense() = default;
  Dense(Index m, Index n) : rows(m), columns(n), data(static_cast<std::size_t>(m * n)) {}
  F& operator()(Index i, Index j) { return data[static_cast<std::size_t>(i * columns + j)]; }
  F operator()(Index i, Index j) const { return data[static_cast<std::size_t>(i * columns + j)]; }

  Dense across() const {
    Dense result(columns, rows);
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < columns; ++j) result(j, i) = (*this)(i, j);
    }
    return result;
  }

  Dense taken(const std::vector<Index>& list) const {  // the listed columns
    Dense result(rows, static_cast<Index>(list.size()));
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < result.columns; ++j) {
        result(i, j) = (*this)(i, list[static_cast<std::size_t>(j)]);
      }
    }
    return result;
  }
};

template <class F>
using DenseTensors = std::map<std::string, Dense<F>, std::less<>>;

// The inputs and upstream gradients of a problem whose tensors have at most two dimensions; a
// vector is one row.
template <class F>
DenseTensors<F> dense_inputs(const Problem& problem) {
  DenseTensors<F> result;
  for (const TensorSpec& spec : problem.op->tensors(problem)) {
    if (spec.kind != TensorKind::kInput && spec.kind != TensorKind::kUpstream) continue;
    const bool vector = spec.shape.rank() == 1;
    Dense<F> value(vector ? 1 : spec.shape[0], spec.shape[vector ? 0 : 1]);
    const std::vector<double> data = whole_tensor(problem, spec);
    value.data.assign(data.begin(), data.end());
    result[std::string(spec.name)] = std::move(value);
  }
  return result;
}

// Adds a row to every row.
template <class F>
void add_row(Dense<F>& matrix, const Dense<F>& row) {
  for (Index i = 0; i < matrix.rows; ++i) {
    for (Index j = 0; j < matrix.columns; ++j) matrix(i, j) += row(0, j);
  }
}

// Rows [first, first + count), and adding to rows from `first`.
template <class F>
Dense<F> rows(const Dense<F>& matrix, Index first, Index count) {
  Dense<F> result(count, matrix.columns);
  for (Index i = 0; i < count; ++i) {
    for (Index j = 0; j < matrix.columns; ++j) result(i, j) = matrix(first + i, j);
  }
  return result;
}

template <class F>
void put_rows(Dense<F>& target, Index first, const Dense<F>& from) {
  for (Index i = 0; i < from.rows; ++i) {
    for (Index j = 0; j < from.columns; ++j) target(first + i, j) += from(i, j);
  }
}

// How sums are formed. kLow rounds the accumulator to bf16 after every term: a fault.
enum class Summation { kInOrder, kPermuted, kPairwise, kChunks, kFused, kTruncating, kLow };

template <class F>
class Arithmetic {
 public:
  Arithmetic(const Precision& precision, Summation summation, std::uint64_t seed)
      : precision_(precision), summation_(summation), dice_(seed) {}

  Dice& dice() { return dice_; }

  static F rounded(DType type, F value) {
    return static_cast<F>(round_to(type, static_cast<double>(value)));
  }

  static Dense<F> rounded(DType type, Dense<F> matrix) {
    for (F& value : matrix.data) value = rounded(type, value);
    return matrix;
  }

  Dense<F> product(const Dense<F>& a, const Dense<F>& b) {
    const Dense<F> left = operand(a);
    const Dense<F> right = operand(b.across());
    const std::vector<Index> order = dice_.permutation(a.columns);
    chunk_ = 1 + dice_.below(16);
    Dense<F> result(a.rows, b.columns);
    std::vector<F> terms_a(order.size()), terms_b(order.size());
    for (Index i = 0; i < result.rows; ++i) {
      for (Index j = 0; j < result.columns; ++j) {
        for (std::size_t k = 0; k < order.size(); ++k) {
          const auto at = summation_ == Summation::kInOrder ? static_cast<Index>(k) : order[k];
          terms_a[k] = left(i, at);
          terms_b[k] = right(j, at);
        }
        result(i, j) = sum(terms_a, terms_b);
      }
    }
    return result;
  }

  // The parts added one after another in a random order, in precision.reduction.
  Dense<F> all_reduce(std::vector<Dense<F>> parts) {
    if (parts.size() == 1) return parts[0];
    const auto order = dice_.permutation(static_cast<Index>(parts.size()));
    Dense<F> result = rounded(precision_.reduction, parts[static_cast<std::size_t>(order[0])]);
    for (std::size_t p = 1; p < order.size(); ++p) {
      const auto next = rounded(precision_.reduction, parts[static_cast<std::size_t>(order[p])]);
      for (std::size_t i = 0; i < result.data.size(); ++i) {
        result.data[i] = rounded(precision_.reduction, result.data[i] + next.data[i]);
      }
    }
    return result;
  }

 private:
  Dense<F> operand(const Dense<F>& matrix) const {
    const bool rounds = precision_.operand == DType::kTf32;
    return rounds ? rounded(DType::kTf32, matrix) : matrix;
  }

  F sum(const std::vector<F>& a, const std::vector<F>& b) const {
    if (summation_ == Summation::kPairwise) return pairwise(a.data(), b.data(), a.size());
    F total = 0;
    if (summation_ == Summation::kChunks) {
      for (std::size_t first = 0; first < a.size(); first += static_cast<std::size_t>(chunk_)) {
        F partial = 0;
        const auto last = std::min(a.size(), first + static_cast<std::size_t>(chunk_));
        for (std::size_t k = first; k < last; ++k) partial += a[k] * b[k];
        total += partial;
      }
      return total;
    }
    if (summation_ == Summation::kTruncating) return truncating(a, b);
    for (std::size_t k = 0; k < a.size(); ++k) {
      if (summation_ == Summation::kFused) {
        total = std::fma(a[k], b[k], total);
      } else {
        total += a[k] * b[k];
      }
      if (summation_ == Summation::kLow) total = rounded(DType::kBf16, total);
    }
    return total;
  }

  static F pairwise(const F* a, const F* b, std::size_t count) {
    if (count == 0) return 0;
    if (count == 1) return a[0] * b[0];
    const std::size_t half = count / 2;
    return pairwise(a, b, half) + pairwise(a + half, b + half, count - half);
  }

  // Sixteen products at a time are added exactly, then the accumulator is cut off.
  static F truncating(const std::vector<F>& a, const std::vector<F>& b) {
    F total = 0;
    for (std::size_t first = 0; first < a.size(); first += 16) {
      double exact = static_cast<double>(total);
      for (std::size_t k = first; k < std::min(a.size(), first + 16); ++k) {
        exact += static_cast<double>(a[k]) * static_cast<double>(b[k]);
      }
      total = static_cast<F>(exact);
      if (std::fabs(static_cast<double>(total)) > std::fabs(exact)) {
        total = std::nextafter(total, F{0});
      }
    }
    return total;
  }

  Precision precision_;
  Summation summation_;
  Dice dice_;
  Index chunk_ = 1;
};

}  // namespace shardproof
