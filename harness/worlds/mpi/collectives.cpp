#include "harness/worlds/mpi/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "harness/worlds/reductions.h"

namespace shardproof {
namespace {

constexpr std::int64_t kNothing = -1;

// Counts and displacements as MPI wants them.
struct Blocks {
  std::vector<int> counts;
  std::vector<int> places;
  std::size_t total = 0;

  void add(std::size_t bytes) {
    counts.push_back(static_cast<int>(bytes));
    places.push_back(static_cast<int>(total));
    total += bytes;
    if (total > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      throw std::invalid_argument("a collective of more than 2 GiB");
    }
  }
};

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

// What a member says to another one: what it does, what it hands over and what it expects.
struct MpiCollectives::Envelope {
  std::int64_t run = 0;
  std::array<char, 24> operation{};
  std::int32_t root = -1;
  std::int32_t phase = 0;
  std::int64_t given = kNothing;  // elements
  std::int64_t taken = kNothing;
  std::int32_t given_dtype = 0;
  std::int32_t taken_dtype = 0;
};

void MpiCollectives::join(const MpiGroup& group, const CollectiveCall& call) {
  Carrier* carrier = run_.rank().carrier.get();
  if (carrier == nullptr) run_.rank().settle();
  const std::size_t event =
      run_.note(call.operation, group.axis, -1, 0, handed_in(call, group.position));
  const double began = run_.elapsed();
  run_.status().become(Activity::State::kWaiting);
  agree(group, call);
  if (carrier != nullptr && call.operation != "barrier") {
    carrier->collect(group.carried, call);
  } else if (call.operation != "barrier") {
    exchange(group, call);
    if (is_reduction(call.operation)) {
      reduce(group, call);
    } else {
      unpack(group, call);
    }
  }
  run_.status().become(Activity::State::kComputing);
  run_.waited_since(began);
  run_.complete(event);
}

void MpiCollectives::agree(const MpiGroup& group, const CollectiveCall& call) {
  std::vector<Envelope> ours(static_cast<std::size_t>(group.size()));
  for (int i = 0; i < group.size(); ++i) {
    Envelope& envelope = ours[static_cast<std::size_t>(i)];
    envelope.run = run_.number();
    call.operation.copy(envelope.operation.data(), envelope.operation.size() - 1);
    envelope.root = call.root;
    envelope.phase = static_cast<int>(run_.rank().log.phase);
    if (const View* gives = given(call, i)) {
      envelope.given = gives->elements();
      envelope.given_dtype = static_cast<int>(gives->dtype);
    }
    if (const View* takes = taken(call, i)) {
      envelope.taken = takes->elements();
      envelope.taken_dtype = static_cast<int>(takes->dtype);
    }
  }
  std::vector<Envelope> theirs(ours.size());
  check_mpi(MPI_Alltoall(ours.data(), sizeof(Envelope), MPI_BYTE, theirs.data(), sizeof(Envelope),
                         MPI_BYTE, group.communicator));
  for (int i = 0; i < group.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    check_pair(group, ours[at], i, theirs[at]);
  }
}

void MpiCollectives::check_pair(const MpiGroup& group, const Envelope& mine, int peer,
                                const Envelope& theirs) {
  if (theirs.run != mine.run) throw MpiError("a collective of an earlier run came");
  const int rank = run_.rank().index();
  const int other = group.members[static_cast<std::size_t>(peer)];
  const auto where = [&](const Envelope& envelope) {
    return place(group.axis, static_cast<Phase>(envelope.phase));
  };
  if (mine.operation != theirs.operation) {
    run_.mismatch(fmt::format("rank {} calls {} ({}) but rank {} calls {} ({})", rank,
                              mine.operation.data(), where(mine), other, theirs.operation.data(),
                              where(theirs)));
  }
  if (mine.root != theirs.root) {
    run_.mismatch(fmt::format("rank {} calls broadcast from root {} but rank {} from root {} ({})",
                              rank, mine.root, other, theirs.root, where(mine)));
  }
  const auto check_flow = [&](const Envelope& sender, int from, const Envelope& receiver, int to) {
    const bool agrees =
        sender.given == receiver.taken && sender.given_dtype == receiver.taken_dtype;
    if (sender.given == kNothing || agrees) return;
    run_.mismatch(fmt::format("in {} ({}) rank {} gives {} where rank {} takes {}",
                              sender.operation.data(), where(sender), from,
                              size_text(sender.given, static_cast<DType>(sender.given_dtype)), to,
                              size_text(receiver.taken, static_cast<DType>(receiver.taken_dtype))));
  };
  check_flow(mine, rank, theirs, other);
  check_flow(theirs, other, mine, rank);
}

// Every member's part for this one, one after another, in incoming_.
void MpiCollectives::exchange(const MpiGroup& group, const CollectiveCall& call) {
  if (call.operation == "broadcast") {
    incoming_.assign(call.data.data, call.data.data + call.data.bytes());
    check_mpi(MPI_Bcast(incoming_.data(), static_cast<int>(incoming_.size()), MPI_BYTE, call.root,
                        group.communicator));
    return;
  }
  Blocks sent;
  Blocks received;
  for (int i = 0; i < group.size(); ++i) {
    sent.add(given(call, i)->bytes());
    received.add(taken(call, i)->bytes());
  }
  incoming_.resize(received.total);
  const bool same_for_all = is_all_reduce(call.operation) || call.operation == "all_gather";
  if (same_for_all) {
    check_mpi(MPI_Allgatherv(call.data.data, sent.counts[0], MPI_BYTE, incoming_.data(),
                             received.counts.data(), received.places.data(), MPI_BYTE,
                             group.communicator));
    return;
  }
  outgoing_.resize(sent.total);
  for (std::size_t i = 0; i < sent.counts.size(); ++i) {
    const View& part = *given(call, static_cast<int>(i));
    copy_bytes(outgoing_.data() + sent.places[i], part.data, part.bytes());
  }
  check_mpi(MPI_Alltoallv(outgoing_.data(), sent.counts.data(), sent.places.data(), MPI_BYTE,
                          incoming_.data(), received.counts.data(), received.places.data(),
                          MPI_BYTE, group.communicator));
}

void MpiCollectives::reduce(const MpiGroup& group, const CollectiveCall& call) {
  const auto combine = call.operation == "all_reduce_maximum" ? keep_larger : add_rounded;
  const View& target = call.data;
  for (int i = 1; i < group.size(); ++i) {
    combine(target.dtype, incoming_.data(),
            incoming_.data() + static_cast<std::size_t>(i) * target.bytes(), target.elements());
  }
  copy_bytes(target.data, incoming_.data(), target.bytes());
}

void MpiCollectives::unpack(const MpiGroup& group, const CollectiveCall& call) {
  const std::byte* next = incoming_.data();
  const int sources = call.operation == "broadcast" ? 1 : group.size();
  for (int i = 0; i < sources; ++i) {
    const View& target = *taken(call, i);
    copy_bytes(target.data, next, target.bytes());
    next += target.bytes();
  }
}

}  // namespace shardproof
