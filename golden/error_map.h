// ErrorMap: a coarse text drawing of where a tensor's errors lie: rows are blocks of one dimension,
// columns of another, a character says how the worst error there compares with its bound.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "harness/model/shape.h"

namespace shardproof {

// |got - want| / bound: 0 when equal (infinities, NaNs), infinite without a bound, NaN when only
// one of them is a number.
double error_ratio(double got, double want, double bound);

// What the characters of a map mean, one line.
std::string_view error_map_legend();

// `ratios` row-major over `shape`. Labels name the two dimensions.
std::string error_map(const Shape& shape, std::span<const double> ratios, int row_dimension,
                      int column_dimension, std::string_view row_label,
                      std::string_view column_label);

}  // namespace shardproof
