// Dense copies of tensors that have gaps or another order of dimensions, for those that take only
// dense ones, as communicators do.
#pragma once

#include "harness/run/rank.h"

namespace shardproof {

// `view` itself where it is dense, else a copy of it that `room` owns.
inline View dense_of(Rank& rank, const View& view, Tensor& room) {
  if (view.is_dense()) return view;
  room = rank.make(view.dtype, view.shape);
  rank.device().copy(view, room);
  return room;
}

}  // namespace shardproof
