// Fused weights: weights of the same rows side by side in one matrix, as [gate | up] or
// [Q | K | V]. What a rank needs of each does not lie side by side in the whole.
#pragma once

#include <vector>

#include "harness/model/layout.h"
#include "harness/run/rank.h"

namespace shardproof {

// The same elements with one more dimension, of extent 1.
inline View with_dimension(const View& view, int dimension) {
  View more{view.data, view.dtype, {}, {}};
  for (int d = 0; d <= view.shape.rank(); ++d) {
    if (d == dimension) more.shape.append(1);
    if (d == view.shape.rank()) break;
    more.strides[static_cast<std::size_t>(more.shape.rank())] =
        view.strides[static_cast<std::size_t>(d)];
    more.shape.append(view.shape[d]);
  }
  return more;
}

// Columns [first, first + heads * n) of `matrix` as [rows, heads, n].
inline View heads_in(const View& matrix, Index first, Index heads, Index n) {
  View view = matrix.slice(1, first, heads * n);
  const Index step = matrix.strides[1];
  view.shape = {matrix.shape[0], heads, n};
  view.strides = {matrix.strides[0], n * step, step};
  return view;
}

// [rows, columns of all parts]; each part is [rows, heads, n] and makes heads * n columns.
inline Tensor fused(Rank& rank, const std::vector<View>& parts) {
  Index columns = 0;
  for (const View& part : parts) columns += part.shape[1] * part.shape[2];
  Tensor whole = rank.make(parts[0].dtype, {parts[0].shape[0], columns});
  Index first = 0;
  for (const View& part : parts) {
    rank.device().copy(part, heads_in(whole, first, part.shape[1], part.shape[2]));
    first += part.shape[1] * part.shape[2];
  }
  return whole;
}

// The columns of `whole` that lie in `ranges`, in their order, as a matrix of their own.
inline Tensor taken(Rank& rank, const View& whole, const std::vector<Range>& ranges) {
  Index columns = 0;
  for (const Range& range : ranges) columns += range.count;
  Tensor own = rank.make(whole.dtype, {whole.shape[0], columns});
  Index first = 0;
  for (const Range& range : ranges) {
    rank.device().copy(whole.slice(1, range.first, range.count),
                       own.view().slice(1, first, range.count));
    first += range.count;
  }
  return own;
}

}  // namespace shardproof
