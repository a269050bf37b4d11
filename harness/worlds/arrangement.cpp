#include "harness/worlds/arrangement.h"

#include <algorithm>
#include <utility>

namespace shardproof {
namespace {

constexpr Index kOffset = 3;  // elements before a tensor whose base is off any alignment
constexpr Index kTail = 5;    // and behind it

using Strides = std::array<Index, Shape::kMaximumRank>;

std::size_t at(int dimension) { return static_cast<std::size_t>(dimension); }

// Adds an allocation of one tensor.
void add_alone(std::size_t tensor, Index first, const Strides& strides, Index elements,
               Arrangement& result) {
  result.places.push_back({result.elements.size(), first, strides});
  result.owners.push_back(tensor);
  result.elements.push_back(elements);
}

// As the first elements of a tensor that is `gap` longer in every dimension; a vector as a column
// of a matrix. Returns the elements of the larger tensor.
Index strides_with_gaps(const Shape& shape, Index gap, Strides& strides) {
  Index stride = shape.rank() == 1 ? 1 + gap : 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[at(d)] = stride;
    stride *= shape[d] + gap;
  }
  return stride;
}

// Dense with two dimensions swapped: those before the last, or the two of a matrix.
void transposed_strides(const Shape& shape, Strides& strides) {
  const int rank = shape.rank();
  std::array<int, Shape::kMaximumRank> order{};
  for (int d = 0; d < rank; ++d) order[at(d)] = d;
  if (rank >= 2) std::swap(order[at(std::max(rank - 3, 0))], order[at(std::max(rank - 2, 1))]);
  Index stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    strides[at(order[at(i)])] = stride;
    stride *= shape[order[at(i)]];
  }
}

// How many leading dimensions count rows: those up to the tokens, or a weight's first one.
int row_dimensions(const TensorSpec& spec) {
  return spec.token_dimension < 0 ? std::min(spec.shape.rank() - 1, 1) : spec.token_dimension + 1;
}

bool have_same_rows(const TensorSpec& a, const Shape& a_part, const TensorSpec& b,
                    const Shape& b_part) {
  const int rows = row_dimensions(a);
  bool same = a.kind == b.kind && a.dtype == b.dtype && rows == row_dimensions(b) &&
              (a.token_dimension < 0) == (b.token_dimension < 0);
  for (int d = 0; same && d < rows; ++d) same = a_part[d] == b_part[d];
  return same;
}

// The elements that one row of the tensor has.
Index row_elements(const TensorSpec& spec, const Shape& part) {
  Index elements = 1;
  for (int d = row_dimensions(spec); d < part.rank(); ++d) elements *= part[d];
  return elements;
}

// Rows of `width` elements of which the tensor's are a part.
Strides packed_strides(const TensorSpec& spec, const Shape& part, Index width) {
  const int rows = row_dimensions(spec);
  Strides strides{};
  Index stride = 1;
  for (int d = part.rank() - 1; d >= 0; --d) {
    if (d == rows - 1) stride = width;
    strides[at(d)] = stride;
    stride *= part[d];
  }
  return strides;
}

Arrangement packed(std::span<const TensorSpec> specs, std::span<const Shape> shapes) {
  Arrangement result;
  std::vector<Index> widths;  // of a row of each allocation
  for (std::size_t t = 0; t < specs.size(); ++t) {
    const auto fits = [&](std::size_t owner) {
      return have_same_rows(specs[owner], shapes[owner], specs[t], shapes[t]);
    };
    const auto found = std::find_if(result.owners.begin(), result.owners.end(), fits);
    const auto allocation = static_cast<std::size_t>(found - result.owners.begin());
    if (found == result.owners.end()) {
      result.owners.push_back(t);
      widths.push_back(0);
    }
    result.places.push_back({allocation, widths[allocation], {}});
    widths[allocation] += row_elements(specs[t], shapes[t]);
  }
  for (std::size_t t = 0; t < specs.size(); ++t) {
    Place& place = result.places[t];
    place.strides = packed_strides(specs[t], shapes[t], widths[place.allocation]);
  }
  for (std::size_t a = 0; a < widths.size(); ++a) {
    Index rows = 1;
    const std::size_t owner = result.owners[a];
    for (int d = 0; d < row_dimensions(specs[owner]); ++d) rows *= shapes[owner][d];
    result.elements.push_back(rows * widths[a]);
  }
  return result;
}

}  // namespace

Arrangement arranged(Views views, std::span<const TensorSpec> specs,
                     std::span<const Shape> shapes) {
  if (views == Views::kPacked) return packed(specs, shapes);
  Arrangement result;
  for (std::size_t t = 0; t < specs.size(); ++t) {
    const Shape& shape = shapes[t];
    Strides strides{};
    if (views == Views::kStrided) {
      const Index gap = 1 + static_cast<Index>(t) % 3;  // each tensor its own
      const Index elements = strides_with_gaps(shape, gap, strides);
      add_alone(t, 0, strides, elements, result);
    } else if (views == Views::kTransposed) {
      transposed_strides(shape, strides);
      add_alone(t, 0, strides, shape.elements(), result);
    } else {
      strides_with_gaps(shape, 0, strides);
      add_alone(t, kOffset, strides, kOffset + shape.elements() + kTail, result);
    }
  }
  return result;
}

}  // namespace shardproof
