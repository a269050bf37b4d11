#include "reference/norm_error.h"

#include <cmath>

#include "reference/projection_error.h"

namespace shardproof {

std::vector<double> plain_product_of(const std::vector<double>& left, Index rows,
                                     const std::vector<double>& right, Index columns) {
  const Index inner = rows == 0 ? 0 : static_cast<Index>(left.size()) / rows;
  return plain_product(left, right, rows, inner, columns);
}

std::vector<Carried> through(const std::vector<Carried>& errors, const std::vector<double>& right,
                             Index inner, Index columns) {
  const auto rows = inner == 0 ? 0 : static_cast<Index>(errors.size()) / inner;
  std::vector<Carried> result(size_of(rows, columns));
  for (Index i = 0; i < rows; ++i) {
    for (Index k = 0; k < inner; ++k) {
      const Carried& error = errors[static_cast<std::size_t>(i * inner + k)];
      for (Index j = 0; j < columns; ++j) {
        const double by = std::fabs(right[static_cast<std::size_t>(k * columns + j)]);
        if (by == 0) continue;
        Carried& sum = result[static_cast<std::size_t>(i * columns + j)];
        sum.worst += by * error.worst;
        sum.square += by * (by * error.square);
        sum.common += by * error.common;
        sum.coherent += by * (by * error.coherent);
      }
    }
  }
  return result;
}

}  // namespace shardproof
