#include "harness/worlds/sim_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "harness/worlds/virtual_time.h"

namespace shardproof {
namespace {

bool is_all_reduce(std::string_view operation) {
  return operation == "all_reduce" || operation == "all_reduce_maximum";
}

bool is_reduction(const Call& call) {
  return is_all_reduce(call.operation) || call.operation == "reduce_scatter";
}

// What the member at position `from` hands to the one at `to`, and where it is put; null when the
// operation moves nothing between them.
const View* given(const Call& sender, int to) {
  if (sender.operation == "barrier") return nullptr;
  const bool by_target = sender.operation == "reduce_scatter" || sender.operation == "all_to_all";
  return by_target ? &sender.parts[static_cast<std::size_t>(to)] : &sender.data;
}

const View* taken(const Call& receiver, int from) {
  if (receiver.operation == "barrier") return nullptr;
  const auto i = static_cast<std::size_t>(from);
  if (receiver.operation == "all_gather") return &receiver.parts[i];
  if (receiver.operation == "all_to_all") return &receiver.received[i];
  return &receiver.data;
}

Index handed_in(const Call& call, int position) {
  if (call.operation == "barrier") return 0;
  const bool by_target = call.operation == "reduce_scatter" || call.operation == "all_to_all";
  if (!by_target) return static_cast<Index>(call.data.bytes());
  Index bytes = 0;
  for (std::size_t i = 0; i < call.parts.size(); ++i) {
    const bool to_itself = static_cast<int>(i) == position;
    if (to_itself && call.operation == "all_to_all") continue;
    bytes += static_cast<Index>(call.parts[i].bytes());
  }
  return bytes;
}

double seconds(std::string_view operation, int ranks, double bytes) {
  if (is_all_reduce(operation)) return all_reduce_seconds(ranks, bytes);
  if (operation == "all_gather") return all_gather_seconds(ranks, bytes);
  if (operation == "reduce_scatter") return reduce_scatter_seconds(ranks, bytes);
  if (operation == "all_to_all") return all_to_all_seconds(ranks, bytes);
  if (operation == "broadcast") return broadcast_seconds(ranks, bytes);
  return barrier_seconds(ranks);
}

std::string size_of(const View& data) {
  return fmt::format("{} {} elements", data.elements(), format(data.dtype).name);
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

template <typename Element>
void add_native(std::byte* target, const std::byte* source, Index elements) {
  auto* sums = reinterpret_cast<Element*>(target);
  const auto* terms = reinterpret_cast<const Element*>(source);
  for (Index i = 0; i < elements; ++i) sums[i] += terms[i];
}

void keep_larger(DType type, std::byte* target, const std::byte* source, Index elements) {
  for (Index i = 0; i < elements; ++i) {
    const double held = load(type, target, i);
    const double other = load(type, source, i);
    if (held < other || std::isnan(other)) store(type, target, i, other);
  }
}

}  // namespace

// A sum in f32 has more than twice the bits of the narrower types, so that rounding it again gives
// the correctly rounded sum.
void add_rounded(DType type, std::byte* target, const std::byte* source, Index elements) {
  if (type == DType::kF64) return add_native<double>(target, source, elements);
  if (type == DType::kF32) return add_native<float>(target, source, elements);
  for (Index i = 0; i < elements; ++i) {
    store(type, target, i,
          static_cast<float>(load(type, target, i)) + static_cast<float>(load(type, source, i)));
  }
}

void Collectives::join(SimGroup& group, int position, const Call& call) {
  SimRank& rank = *call.rank;
  if (group.calls.size() != group.members.size()) group.begin();
  const auto check_idle = [&](const View& data, bool writes) {
    messages_.check_idle(rank, data, call.operation, writes);
  };
  if (call.operation != "barrier" && !rank.outstanding.empty()) {
    check_idle(call.data, call.operation != "all_gather");
    for (const View& part : call.parts) check_idle(part, call.operation == "all_gather");
    for (const View& part : call.received) check_idle(part, true);
  }
  run_.scheduler.pause();
  check_agreement(group, position, call);
  Call& mine = group.calls[static_cast<std::size_t>(position)];
  mine = call;
  mine.posted = rank.log.now();
  mine.arrived = true;
  const std::size_t event =
      rank.log.record(call.operation, group.axis, -1, handed_in(call, position));
  if (++group.arrived == group.size()) {
    perform(group);
  } else {
    rank.awaited_group = &group;
    const std::uint64_t completed = group.completed;
    while (group.completed == completed) run_.scheduler.block();
  }
  rank.log.advance_to(group.completed_at);
  rank.log.complete(event, group.completed_at);
}

void Collectives::check_agreement(const SimGroup& group, int position, const Call& call) {
  check_pair(group, position, call, position, call);
  const bool one_size_for_all = call.data.data != nullptr && call.operation != "all_gather" &&
                                call.operation != "reduce_scatter";
  for (int other = 0; other < group.size(); ++other) {
    const Call& theirs = group.calls[static_cast<std::size_t>(other)];
    if (!theirs.arrived) continue;
    if (other < position) {
      check_pair(group, other, theirs, position, call);
    } else {
      check_pair(group, position, call, other, theirs);
    }
    if (one_size_for_all || call.operation == "barrier") return;
  }
}

void Collectives::check_pair(const SimGroup& group, int first, const Call& a, int second,
                             const Call& b) {
  const auto who = [&](int position) {
    return fmt::format("rank {}", group.members[static_cast<std::size_t>(position)]);
  };
  const auto where = [&](const Call& call) { return place(group.axis, call.rank->log.phase); };
  if (a.operation != b.operation) {
    run_.end(Ending::kMismatched,
             fmt::format("{} calls {} ({}) but {} calls {} ({})", who(first), a.operation, where(a),
                         who(second), b.operation, where(b)));
  }
  if (a.root != b.root) {
    run_.end(Ending::kMismatched,
             fmt::format("{} calls broadcast from root {} but {} from root {} ({})", who(first),
                         a.root, who(second), b.root, where(a)));
  }
  const auto check_flow = [&](const Call& sender, int from, const Call& receiver, int to) {
    const View* gives = given(sender, to);
    const View* takes = taken(receiver, from);
    if (gives == nullptr ||
        (gives->dtype == takes->dtype && gives->elements() == takes->elements())) {
      return;
    }
    run_.end(Ending::kMismatched,
             fmt::format("in {} ({}) {} gives {} where {} takes {}", sender.operation,
                         where(sender), who(from), size_of(*gives), who(to), size_of(*takes)));
  };
  check_flow(a, first, b, second);
  check_flow(b, second, a, first);
}

void Collectives::perform(SimGroup& group) {
  if (is_reduction(group.calls[0])) {
    reduce(group);
  } else if (group.calls[0].operation != "barrier") {
    move(group);
  }
  double begins = 0;
  Index largest = 0;
  for (int i = 0; i < group.size(); ++i) {
    const Call& call = group.calls[static_cast<std::size_t>(i)];
    begins = std::max(begins, call.posted);
    largest = std::max(largest, handed_in(call, i));
  }
  group.completed_at =
      begins + seconds(group.calls[0].operation, group.size(), static_cast<double>(largest));
  ++group.completed;
  group.arrived = 0;
  for (Call& call : group.calls) {
    call.arrived = false;
    if (call.rank->awaited_group != &group) continue;
    call.rank->awaited_group = nullptr;
    run_.scheduler.wake(call.rank->index());
  }
}

// Sums, or maxima, in the order of the group. All are made before any is written, as a member's
// target may lie in its own parts.
void Collectives::reduce(SimGroup& group) {
  const std::string_view operation = group.calls[0].operation;
  const bool same_for_all = is_all_reduce(operation);
  const auto combine = operation == "all_reduce_maximum" ? keep_larger : add_rounded;
  const auto targets = static_cast<std::size_t>(same_for_all ? 1 : group.size());
  std::size_t total = 0;
  for (std::size_t to = 0; to < targets; ++to) total += group.calls[to].data.bytes();
  staging_.resize(total);
  std::byte* sum = staging_.data();
  for (std::size_t to = 0; to < targets; ++to) {
    const View& target = group.calls[to].data;
    const int position = static_cast<int>(to);
    copy_bytes(sum, given(group.calls[0], position)->data, target.bytes());
    for (std::size_t from = 1; from < group.calls.size(); ++from) {
      combine(target.dtype, sum, given(group.calls[from], position)->data, target.elements());
    }
    sum += target.bytes();
  }
  const std::byte* done = staging_.data();
  for (Call& call : group.calls) {
    copy_bytes(call.data.data, done, call.data.bytes());
    if (!same_for_all) done += call.data.bytes();
  }
}

// all_gather, all_to_all, broadcast: everything is read before anything is written.
void Collectives::move(SimGroup& group) {
  const bool from_root = group.calls[0].operation == "broadcast";
  const int first = from_root ? group.calls[0].root : 0;
  const int last = from_root ? first + 1 : group.size();
  const bool by_target = group.calls[0].operation == "all_to_all";
  staging_.clear();
  for (int from = first; from < last; ++from) {
    for (int to = 0; to < (by_target ? group.size() : 1); ++to) {
      const View& data = *given(group.calls[static_cast<std::size_t>(from)], to);
      staging_.insert(staging_.end(), data.data, data.data + data.bytes());
    }
  }
  const std::byte* next = staging_.data();
  for (int from = first; from < last; ++from) {
    for (int to = 0; to < group.size(); ++to) {
      const View& target = *taken(group.calls[static_cast<std::size_t>(to)], from);
      copy_bytes(target.data, next, target.bytes());
      if (by_target) next += target.bytes();
    }
    if (!by_target) next += given(group.calls[static_cast<std::size_t>(from)], 0)->bytes();
  }
}

}  // namespace shardproof
