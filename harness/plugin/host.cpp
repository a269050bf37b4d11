// The functions that a plugin's sharded implementation can ask its rank for.
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "harness/plugin/session.h"
#include "harness/plugin/tensors.h"

namespace shardproof {
namespace {

std::string kept_name(const char* name) { return std::string("plugin ") + name; }

int coordinate(shardproof_rank* rank, const char* axis) {
  return RankSession::of(rank).rank().coordinate(axis);
}

int size(shardproof_rank* rank, const char* axis) {
  return RankSession::of(rank).rank().size(axis);
}

const char* tensor(shardproof_rank* rank, const char* name, DLTensor* view) {
  RankSession& session = RankSession::of(rank);
  return session.guard([&] { *view = session.lend(session.rank().get(name)); });
}

const char* places(shardproof_rank* rank, const char* name, int dimension, const int64_t** places,
                   int64_t* count) {
  RankSession& session = RankSession::of(rank);
  return session.guard([&] {
    if (dimension < 0 || dimension >= session.rank().get(name).shape.rank()) {
      throw std::invalid_argument(fmt::format("places: {} has no dimension {}", name, dimension));
    }
    const std::span<const Index> owned = session.rank().owned(name, dimension);
    *places = owned.data();
    *count = static_cast<int64_t>(owned.size());
  });
}

int is_visible(shardproof_rank* rank, int64_t batch, int64_t query, int64_t key) {
  return visible(RankSession::of(rank).rank().problem(), batch, query, key);
}

double alibi(shardproof_rank* rank, int64_t head, int64_t query, int64_t key) {
  const Problem& problem = RankSession::of(rank).rank().problem();
  if (problem.bias != ScoreBias::kAlibi) return 0;
  return -alibi_slope(problem, head) * std::fabs(static_cast<double>(query - key));
}

const char* make(shardproof_rank* rank, const char* name, shardproof_dtype dtype, int ndim,
                 const int64_t* shape, DLTensor* view) {
  RankSession& session = RankSession::of(rank);
  return session.guard([&] {
    if (static_cast<unsigned>(dtype) > SHARDPROOF_F16) {
      throw std::invalid_argument(fmt::format("make: {} is no dtype", static_cast<int>(dtype)));
    }
    if (ndim < 0 || ndim > Shape::kMaximumRank) {
      throw std::invalid_argument(fmt::format("make: {} dimensions", ndim));
    }
    Shape extents;
    for (int d = 0; d < ndim; ++d) extents.append(shape[d]);
    Tensor made = session.rank().make(static_cast<DType>(dtype), extents);
    *view = session.lend(made);
    session.rank().keep(kept_name(name), std::move(made));
  });
}

const char* kept(shardproof_rank* rank, const char* name, DLTensor* view) {
  RankSession& session = RankSession::of(rank);
  return session.guard([&] { *view = session.lend(session.rank().kept(kept_name(name))); });
}

// Calls `action` with the session's rank along the axis.
template <typename Action>
const char* along(shardproof_rank* rank, const char* axis, Action&& action) {
  RankSession& session = RankSession::of(rank);
  return session.guard([&] { action(session.rank().along(axis)); });
}

const char* start_send(shardproof_rank* rank, const char* axis, const DLTensor* data, int target,
                       int tag, int* request) {
  return along(rank, axis, [&](Communicator& group) {
    *request = RankSession::of(rank).add(group.start_send(view_of(*data), target, tag));
  });
}

const char* start_receive(shardproof_rank* rank, const char* axis, const DLTensor* data, int source,
                          int tag, int* request) {
  return along(rank, axis, [&](Communicator& group) {
    *request = RankSession::of(rank).add(group.start_receive(view_of(*data), source, tag));
  });
}

const char* wait(shardproof_rank* rank, const char* axis, int request) {
  return along(rank, axis,
               [&](Communicator& group) { group.wait(RankSession::of(rank).request(request)); });
}

const char* all_reduce(shardproof_rank* rank, const char* axis, const DLTensor* data) {
  return along(rank, axis, [&](Communicator& group) { group.all_reduce(view_of(*data)); });
}

const char* all_reduce_maximum(shardproof_rank* rank, const char* axis, const DLTensor* data) {
  return along(rank, axis, [&](Communicator& group) { group.all_reduce_maximum(view_of(*data)); });
}

std::vector<View> views_of(const Communicator& group, const DLTensor* tensors) {
  std::vector<View> views;
  for (int r = 0; r < group.size(); ++r) views.push_back(view_of(tensors[r]));
  return views;
}

const char* all_gather(shardproof_rank* rank, const char* axis, const DLTensor* mine,
                       const DLTensor* parts) {
  return along(rank, axis, [&](Communicator& group) {
    group.all_gather(view_of(*mine), views_of(group, parts));
  });
}

const char* reduce_scatter(shardproof_rank* rank, const char* axis, const DLTensor* parts,
                           const DLTensor* mine) {
  return along(rank, axis, [&](Communicator& group) {
    group.reduce_scatter(views_of(group, parts), view_of(*mine));
  });
}

const char* all_to_all(shardproof_rank* rank, const char* axis, const DLTensor* sent,
                       const DLTensor* received) {
  return along(rank, axis, [&](Communicator& group) {
    group.all_to_all(views_of(group, sent), views_of(group, received));
  });
}

const char* broadcast(shardproof_rank* rank, const char* axis, const DLTensor* data, int root) {
  return along(rank, axis, [&](Communicator& group) { group.broadcast(view_of(*data), root); });
}

const char* barrier(shardproof_rank* rank, const char* axis) {
  return along(rank, axis, [](Communicator& group) { group.barrier(); });
}

const void* native(shardproof_rank* rank, const char* axis) {
  const void* handle = nullptr;
  along(rank, axis, [&](Communicator& group) { handle = group.native(); });
  return handle;
}

}  // namespace

const shardproof_host& plugin_host() {
  static const shardproof_host host{coordinate,         size,          tensor,         places,
                                    is_visible,         alibi,         make,           kept,
                                    start_send,         start_receive, wait,           all_reduce,
                                    all_reduce_maximum, all_gather,    reduce_scatter, all_to_all,
                                    broadcast,          barrier,       native};
  return host;
}

}  // namespace shardproof
