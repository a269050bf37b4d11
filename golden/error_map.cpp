#include "golden/error_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace shardproof {
namespace {

constexpr Index kMaximumRows = 16;
constexpr Index kMaximumColumns = 64;

// [0, extent) cut into at most `most` blocks of one size.
struct Blocks {
  Index extent;
  Index size;

  Blocks(Index extent_, Index most)
      : extent(extent_), size(std::max<Index>((extent_ + most - 1) / most, 1)) {}
  Index count() const { return (extent + size - 1) / size; }
  Index of(Index position) const { return position / size; }
};

// NaN is worse than any ratio.
bool is_worse(double left, double right) {
  return !std::isnan(right) && (std::isnan(left) || left > right);
}

char symbol(double ratio) {
  if (ratio <= 0.5) return '.';
  if (ratio <= 1) return '-';
  if (ratio <= 10) return '+';
  if (ratio <= 1000) return '*';
  return std::isnan(ratio) ? 'N' : '#';
}

}  // namespace

double error_ratio(double got, double want, double bound) {
  if (got == want || (std::isnan(got) && std::isnan(want))) return 0;
  const double error = std::fabs(got - want);
  if (std::isinf(error) || bound == 0) return std::numeric_limits<double>::infinity();
  if (std::isinf(bound) && !std::isnan(error)) return 0;
  return error / bound;
}

std::string_view error_map_legend() {
  return "error/bound: . to 1/2, - to 1, + to 10, * to 1000, # more, N not a number";
}

std::string error_map(const Shape& shape, std::span<const double> ratios, int row_dimension,
                      int column_dimension, std::string_view row_label,
                      std::string_view column_label) {
  const Blocks rows(shape[row_dimension], kMaximumRows);
  const Blocks columns(shape[column_dimension], kMaximumColumns);
  std::vector<double> worst(static_cast<std::size_t>(rows.count() * columns.count()), 0);
  for (std::size_t flat = 0; flat < ratios.size(); ++flat) {
    const auto at = shape.coordinates(static_cast<Index>(flat));
    const Index row = rows.of(at[static_cast<std::size_t>(row_dimension)]);
    const Index column = columns.of(at[static_cast<std::size_t>(column_dimension)]);
    double& cell = worst[static_cast<std::size_t>(row * columns.count() + column)];
    if (is_worse(ratios[flat], cell)) cell = ratios[flat];
  }
  std::string text = fmt::format("  {} (down, {} a row) x {} (across, {} a column)\n", row_label,
                                 rows.size, column_label, columns.size);
  for (Index row = 0; row < rows.count(); ++row) {
    text += fmt::format("  {:>6} ", row * rows.size);
    for (Index column = 0; column < columns.count(); ++column) {
      text += symbol(worst[static_cast<std::size_t>(row * columns.count() + column)]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace shardproof
