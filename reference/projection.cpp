#include "reference/projection.h"

#include "harness/model/require.h"
#include "reference/projection_error.h"

namespace shardproof {
namespace {

template <class Real>
int grid_of(const std::vector<Real>& values) {
  int grid = kNoGrid;
  for (Real value : values) grid = std::min(grid, lowest_bit(static_cast<double>(value)));
  return grid;
}

template <class Real>
void add_parts(Product<Real>& product, const Factor<Real>& left, const Factor<Real>& right,
               const Partition& parts) {
  product.parts = static_cast<double>(parts.size());
  product.part_magnitude.resize(product.values.size());
  product.part_square.resize(product.values.size());
  std::vector<Real> partial(static_cast<std::size_t>(right.columns));
  for (Index i = 0; i < left.rows; ++i) {
    for (const std::vector<Index>& part : parts) {
      if (part.empty()) continue;
      std::fill(partial.begin(), partial.end(), Real{0});
      add_row_product(left.values.data() + i * left.columns, right.values.data(), part,
                      right.columns, partial.data());
      for (Index j = 0; j < right.columns; ++j) {
        const Real value = partial[static_cast<std::size_t>(j)];
        const std::size_t at = right.at(i, j);
        product.values[at] += value;
        product.part_magnitude[at] += std::fabs(static_cast<double>(value));
        product.part_square[at] += square(static_cast<double>(value));
      }
    }
  }
}

}  // namespace

template <class Real>
Factor<Real> exact_factor(const std::vector<double>& values, Index rows, Index columns,
                          const ProductRule& rule) {
  Factor<Real> factor{rows, columns, {values.begin(), values.end()}, {}, {}, 0, 53, 0};
  if (!rule.with_errors) return factor;
  factor.bits = format(rule.precision.io).precision;
  factor.grid = grid_of(values);
  for (double value : values) {
    if (!rule.units.operand.exists()) break;
    if (!representable(rule.precision.operand, value)) factor.operand = rule.units.operand;
  }
  return factor;
}

template <class Real>
Factor<Real> middle_factor(std::vector<Real> values, std::vector<Carried> errors, Index rows,
                           Index columns, double shared, const ProductRule& rule) {
  Factor<Real> factor{rows, columns, std::move(values), std::move(errors), {}, 0, 53, 0};
  if (!rule.with_errors) return factor;
  const Precision& precision = rule.precision;
  factor.bits =
      std::min(format(precision.middle).precision, format(precision.accumulator).precision);
  const bool exact = std::all_of(factor.errors.begin(), factor.errors.end(),
                                 [](const Carried& error) { return error.exact(); });
  if (!exact) {
    factor.shared = shared;
    factor.operand = rule.units.middle_operand;
    return factor;
  }
  factor.errors.clear();
  factor.grid = grid_of(factor.values);
  for (Real value : factor.values) {
    if (!rule.units.middle_operand.exists()) break;
    if (!representable(precision.operand, value)) factor.operand = rule.units.middle_operand;
  }
  return factor;
}

template <class Real>
Factor<Real> ones(Index count) {
  return {1, count, std::vector<Real>(static_cast<std::size_t>(count), Real{1}), {}, {}, 0, 0, 0};
}

template <class Real>
Factor<Real> transposed(const Factor<Real>& factor) {
  Factor<Real> result = factor;
  result.rows = factor.columns;
  result.columns = factor.rows;
  for (Index i = 0; i < factor.rows; ++i) {
    for (Index j = 0; j < factor.columns; ++j) {
      result.values[result.at(j, i)] = factor.values[factor.at(i, j)];
      if (!factor.errors.empty()) result.errors[result.at(j, i)] = factor.errors[factor.at(i, j)];
    }
  }
  return result;
}

template <class Real>
Factor<Real> beside(const Factor<Real>& left, const Factor<Real>& right) {
  require(left.rows == right.rows, "factors side by side have equally many rows");
  const Index columns = left.columns + right.columns;
  Factor<Real> result{left.rows, columns, std::vector<Real>(size_of(left.rows, columns)), {}, {}, 0,
                      0,         0};
  const bool carried = !left.errors.empty() || !right.errors.empty();
  if (carried) result.errors.resize(result.values.size());
  for (Index i = 0; i < left.rows; ++i) {
    for (Index j = 0; j < columns; ++j) {
      const Factor<Real>& from = j < left.columns ? left : right;
      const std::size_t at = from.at(i, j < left.columns ? j : j - left.columns);
      result.values[result.at(i, j)] = from.values[at];
      if (!from.errors.empty()) result.errors[result.at(i, j)] = from.errors[at];
    }
  }
  result.operand = left.operand.exists() ? left.operand : right.operand;
  result.shared = std::max(left.shared, right.shared);
  result.bits = std::max(left.bits, right.bits);
  result.grid = std::min(left.grid, right.grid);
  return result;
}

template <class Real>
Product<Real> multiply(const Factor<Real>& left, const Factor<Real>& right, const ProductRule& rule,
                       const Partition& parts) {
  require(left.columns == right.rows, "factors of a product fit");
  Product<Real> product{left.rows, right.columns, {}, {}, {}, {}, 1, 0};
  if (parts.size() > 1) {
    product.values.resize(size_of(left.rows, right.columns));
    add_parts(product, left, right, parts);
  } else {
    product.values =
        plain_product(left.values, right.values, left.rows, left.columns, right.columns);
  }
  if (rule.with_errors) add_errors(product, left, right, rule);
  return product;
}

template <class Real>
double equal_rows(const Factor<Real>& factor) {
  const std::vector<double> values(factor.values.begin(), factor.values.end());
  return row_multiplicity(values.data(), factor.rows, factor.columns);
}

template <class Real>
double equal_columns(const Factor<Real>& factor) {
  const std::vector<double> values(factor.values.begin(), factor.values.end());
  return column_multiplicity(values.data(), factor.rows, factor.columns);
}

#define INSTANTIATE(Real)                                                                       \
  template Factor<Real> exact_factor(const std::vector<double>&, Index, Index,                  \
                                     const ProductRule&);                                       \
  template Factor<Real> middle_factor(std::vector<Real>, std::vector<Carried>, Index, Index,    \
                                      double, const ProductRule&);                              \
  template Factor<Real> ones(Index);                                                            \
  template Factor<Real> transposed(const Factor<Real>&);                                        \
  template Factor<Real> beside(const Factor<Real>&, const Factor<Real>&);                       \
  template Product<Real> multiply(const Factor<Real>&, const Factor<Real>&, const ProductRule&, \
                                  const Partition&);                                            \
  template double equal_rows(const Factor<Real>&);                                              \
  template double equal_columns(const Factor<Real>&);
INSTANTIATE(double)
INSTANTIATE(long double)
#undef INSTANTIATE

}  // namespace shardproof
