#include "harness/worlds/sim_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "harness/worlds/reductions.h"

namespace shardproof {
namespace {

double seconds(const VirtualTime& time, std::string_view operation, int ranks, double bytes) {
  if (is_all_reduce(operation)) return time.all_reduce(ranks, bytes);
  if (operation == "all_gather") return time.all_gather(ranks, bytes);
  if (operation == "reduce_scatter") return time.reduce_scatter(ranks, bytes);
  if (operation == "all_to_all") return time.all_to_all(ranks, bytes);
  if (operation == "broadcast") return time.broadcast(ranks, bytes);
  return time.barrier(ranks);
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace

void Collectives::join(SimRank& rank, SimGroup& group, int position, const CollectiveCall& call) {
  if (group.calls.size() != group.members.size()) group.begin();
  const auto check_idle = [&](const View& data, bool writes) {
    messages_.check_idle(rank, data, call.operation, writes);
  };
  if (call.operation != "barrier" && !rank.outstanding.empty()) {
    check_idle(call.data, call.operation != "all_gather");
    for (const View& part : call.parts) check_idle(part, call.operation == "all_gather");
    for (const View& part : call.received) check_idle(part, true);
  }
  if (rank.carrier == nullptr) rank.settle();
  run_.scheduler.pause();
  const SimCall mine{call, &rank, rank.log.now(), true};
  check_agreement(group, position, mine);
  group.calls[static_cast<std::size_t>(position)] = mine;
  const std::size_t event =
      rank.log.record(call.operation, group.axis, -1, handed_in(call, position));
  if (++group.arrived == group.size()) {
    perform(group);
  } else {
    rank.awaited_group = &group;
    const std::uint64_t completed = group.completed;
    while (group.completed == completed) run_.scheduler.block();
  }
  if (rank.carrier != nullptr && call.operation != "barrier") {
    rank.carrier->collect(group.carried[static_cast<std::size_t>(position)], call);
    run_.has_launched();
  }
  rank.log.advance_to(group.completed_at);
  rank.log.complete(event, group.completed_at);
}

void Collectives::check_agreement(const SimGroup& group, int position, const SimCall& call) {
  check_pair(group, position, call, position, call);
  const bool one_size_for_all = call.data.data != nullptr && call.operation != "all_gather" &&
                                call.operation != "reduce_scatter";
  for (int other = 0; other < group.size(); ++other) {
    const SimCall& theirs = group.calls[static_cast<std::size_t>(other)];
    if (!theirs.arrived) continue;
    if (other < position) {
      check_pair(group, other, theirs, position, call);
    } else {
      check_pair(group, position, call, other, theirs);
    }
    if (one_size_for_all || call.operation == "barrier") return;
  }
}

void Collectives::check_pair(const SimGroup& group, int first, const SimCall& a, int second,
                             const SimCall& b) {
  const auto who = [&](int position) {
    return fmt::format("rank {}", group.members[static_cast<std::size_t>(position)]);
  };
  const auto where = [&](const SimCall& call) { return place(group.axis, call.rank->log.phase); };
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
  const auto check_flow = [&](const SimCall& sender, int from, const SimCall& receiver, int to) {
    const View* gives = given(sender, to);
    const View* takes = taken(receiver, from);
    if (gives == nullptr ||
        (gives->dtype == takes->dtype && gives->elements() == takes->elements())) {
      return;
    }
    run_.end(Ending::kMismatched,
             fmt::format("in {} ({}) {} gives {} where {} takes {}", sender.operation,
                         where(sender), who(from), size_text(gives->elements(), gives->dtype),
                         who(to), size_text(takes->elements(), takes->dtype)));
  };
  check_flow(a, first, b, second);
  check_flow(b, second, a, first);
}

void Collectives::perform(SimGroup& group) {
  if (group.calls[0].rank->carrier != nullptr) {
    // Each member's device does it when that comes to it.
  } else if (is_reduction(group.calls[0].operation)) {
    reduce(group);
  } else if (group.calls[0].operation != "barrier") {
    move(group);
  }
  double begins = 0;
  Index largest = 0;
  for (int i = 0; i < group.size(); ++i) {
    const SimCall& call = group.calls[static_cast<std::size_t>(i)];
    begins = std::max(begins, call.posted);
    largest = std::max(largest, handed_in(call, i));
  }
  group.completed_at = begins + seconds(run_.time, group.calls[0].operation, group.size(),
                                        static_cast<double>(largest));
  ++group.completed;
  group.arrived = 0;
  for (SimCall& call : group.calls) {
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
  for (SimCall& call : group.calls) {
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
