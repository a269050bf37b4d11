#include "harness/worlds/sim_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace shardproof {
namespace {

constexpr std::size_t kKeptPostings = 16384;  // kept from case to case

bool overlap(const Posting& posting, const std::byte* data, std::size_t bytes) {
  return posting.bytes > 0 && bytes > 0 && posting.data < data + bytes &&
         data < posting.data + posting.bytes;
}

View view(const Posting& posting) {
  return View::dense(posting.data, posting.dtype, {posting.elements});
}

std::string size_of(const Posting& posting) {
  return fmt::format("{} {} elements", posting.elements, format(posting.dtype).name);
}

}  // namespace

std::string describe(const Posting& posting) {
  return fmt::format("{} rank {} (tag {}, {})",
                     posting.direction == Direction::kSend ? "send to" : "receive from",
                     posting.peer, posting.tag, place(posting.group->axis, posting.phase));
}

void Messages::begin(int ranks) {
  if (postings_.size() > kKeptPostings) postings_.clear();
  unused_.clear();
  for (Posting& posting : postings_) unused_.push_back(&posting);
  ranks_ = static_cast<std::size_t>(ranks);
  if (mailboxes_.size() < ranks_) mailboxes_.resize(ranks_);
  for (Mailbox& mailbox : mailboxes_) {
    mailbox.sends.clear();
    mailbox.receives.clear();
  }
}

Posting& Messages::acquire() {
  if (unused_.empty()) return postings_.emplace_back();
  Posting& posting = *unused_.back();
  unused_.pop_back();
  posting.matched = posting.faulty = posting.waited = posting.delivered = false;
  return posting;
}

Request Messages::start(SimRank& rank, const SimGroup& group, const View& data, int peer, int tag,
                        Direction direction) {
  const bool sends = direction == Direction::kSend;
  if (rank.carrier == nullptr) rank.settle();
  Posting& posting = acquire();
  posting.direction = direction;
  posting.id = rank.postings++;
  posting.rank = rank.index();
  posting.peer = group.members[static_cast<std::size_t>(peer)];
  posting.tag = tag;
  posting.group = &group;
  posting.phase = rank.log.phase;
  posting.data = data.data;
  posting.elements = data.elements();
  posting.dtype = data.dtype;
  posting.bytes = static_cast<std::size_t>(posting.elements) * storage_bytes(data.dtype);
  posting.in_tensor = rank.memory.owns(data.data);
  check_overlap(rank, posting);
  posting.event = rank.log.record(sends ? "send" : "receive", group.axis, posting.peer,
                                  static_cast<Index>(posting.bytes));
  if (sends) {
    posting.buffered = run_.scheduler.schedule().send_is_buffered();
    posting.late = run_.scheduler.schedule().send_is_read_late();
    posting.arrival = rank.log.arrival(group.axis_index, posting.bytes);
  }
  if (rank.carrier != nullptr) {
    const auto position = static_cast<std::size_t>(group.position_of(rank.index()));
    rank.carrier->start(group.carried[position], data, peer, sends, posting.id);
  } else if (sends) {
    posting.payload.assign(data.data, data.data + posting.bytes);
  } else {
    Memory::poison(view(posting));
  }
  rank.outstanding.push_back(&posting);
  match(posting);
  run_.scheduler.pause();
  return {posting.id};
}

void Messages::launch(SimRank& rank) {
  if (rank.carrier == nullptr) return;
  rank.carrier->launch();
  run_.has_launched();
}

void Messages::match(Posting& posting) {
  const bool sends = posting.direction == Direction::kSend;
  Mailbox& mailbox = mailboxes_[static_cast<std::size_t>(sends ? posting.peer : posting.rank)];
  std::vector<Posting*>& others = sends ? mailbox.receives : mailbox.sends;
  const auto found = std::find_if(others.begin(), others.end(), [&](const Posting* other) {
    return other->tag == posting.tag && other->peer == posting.rank &&
           other->rank == posting.peer && other->group->axis_index == posting.group->axis_index;
  });
  if (found == others.end()) {
    (sends ? mailbox.sends : mailbox.receives).push_back(&posting);
    return;
  }
  Posting& other = **found;
  others.erase(found);
  if (sends) {
    join(posting, other);
  } else {
    join(other, posting);
  }
  SimRank& waiting = *run_.ranks[static_cast<std::size_t>(other.rank)];
  if (waiting.awaited == &other) {
    waiting.awaited = nullptr;
    run_.scheduler.wake(other.rank);
  }
}

void Messages::join(Posting& send, Posting& receive) {
  if (send.dtype != receive.dtype || send.elements != receive.elements) {
    run_.end(
        Ending::kMismatched,
        fmt::format("rank {} sends {} to rank {} (tag {}, {}), which receives {} ({})", send.rank,
                    size_of(send), send.peer, send.tag, place(send.group->axis, send.phase),
                    size_of(receive), receive.phase == Phase::kForward ? "forward" : "backward"));
  }
  send.matched = true;
  receive.matched = true;
  receive.source = &send;
}

void Messages::check_overlap(SimRank& rank, Posting& posting) {
  for (Posting* other : rank.outstanding) {
    const bool both_read =
        posting.direction == Direction::kSend && other->direction == Direction::kSend;
    if (both_read || !overlap(*other, posting.data, posting.bytes)) continue;
    report(posting, fmt::format("{} uses memory that is in flight: {}", describe(posting),
                                describe(*other)));
    other->faulty = true;
  }
}

void Messages::check_idle(SimRank& rank, const View& data, std::string_view operation,
                          bool writes) {
  for (Posting* other : rank.outstanding) {
    if (!writes && other->direction == Direction::kSend) continue;
    if (other->faulty || !overlap(*other, data.data, data.bytes())) continue;
    report(*other,
           fmt::format("{} uses memory that is in flight: {}", operation, describe(*other)));
  }
}

void Messages::wait(SimRank& rank, Request& request) {
  const auto found =
      std::find_if(rank.outstanding.begin(), rank.outstanding.end(),
                   [&](const Posting* posting) { return posting->id == request.id; });
  if (found == rank.outstanding.end()) {
    throw std::logic_error("wait for a request that is not outstanding");
  }
  Posting& posting = **found;
  request.id = -1;
  launch(rank);
  run_.scheduler.pause();
  while (!posting.matched && !(posting.direction == Direction::kSend && posting.buffered)) {
    rank.awaited = &posting;
    run_.scheduler.block();
  }
  rank.outstanding.erase(std::find(rank.outstanding.begin(), rank.outstanding.end(), &posting));
  if (posting.direction == Direction::kSend) {
    finish_send(rank, posting);
  } else {
    finish_receive(rank, posting);
  }
}

void Messages::finish_send(SimRank& rank, Posting& send) {
  check_unchanged(send, "its wait returned");
  if (rank.carrier != nullptr) rank.carrier->finish(send.id);
  rank.log.advance_to(send.arrival);
  rank.log.complete(send.event, send.arrival);
  send.waited = true;
  if (send.delivered) release(send);
}

void Messages::finish_receive(SimRank& rank, Posting& receive) {
  Posting& send = *receive.source;
  if (rank.carrier != nullptr) {
    rank.carrier->finish(receive.id);
  } else {
    deliver(rank, send, receive);
  }
  rank.log.advance_to(send.arrival);
  rank.log.complete(receive.event, rank.log.now());
  send.delivered = true;
  if (send.waited) release(send);
  release(receive);
}

void Messages::deliver(const SimRank& rank, Posting& send, Posting& receive) {
  rank.settle();
  if (send.late && !send.waited) check_unchanged(send, "it was read");
  const Index written = receive.faulty ? -1 : Memory::first_written(view(receive));
  if (written >= 0) {
    report(receive, fmt::format("{}: element {} was written before its wait returned",
                                describe(receive), written));
  }
  if (receive.bytes > 0) std::memcpy(receive.data, send.payload.data(), receive.bytes);
}

// Compares the buffer with what it held; a changed one is delivered as it is now when it is read
// late.
void Messages::check_unchanged(Posting& send, std::string_view until) {
  const SimRank& rank = *run_.ranks[static_cast<std::size_t>(send.rank)];
  if (send.in_tensor && !send.faulty && !rank.memory.owns(send.data)) {
    report(send, fmt::format("{}: its tensor was freed before {}", describe(send), until));
  }
  if (rank.carrier != nullptr) return;  // nobody looks at what a device is at work on
  rank.settle();
  if (send.bytes == 0 || std::memcmp(send.payload.data(), send.data, send.bytes) == 0) return;
  if (!send.faulty) {
    const std::size_t size = storage_bytes(send.dtype);
    Index element = 0;
    while (std::memcmp(send.payload.data() + static_cast<std::size_t>(element) * size,
                       send.data + static_cast<std::size_t>(element) * size, size) == 0) {
      ++element;
    }
    report(send,
           fmt::format("{}: element {} was {} when it was posted and {} before {}", describe(send),
                       element, load(send.dtype, send.payload.data(), element),
                       view(send).at(element), until));
  }
  if (send.late) send.payload.assign(send.data, send.data + send.bytes);
}

void Messages::report(Posting& posting, std::string detail) {
  posting.faulty = true;
  const SimRank& rank = *run_.ranks[static_cast<std::size_t>(posting.rank)];
  run_.findings.push_back({Breach::kInFlightChanged, posting.rank, rank.memory.owner(posting.data),
                           -1, std::move(detail)});
}

void Messages::find_leaks() {
  const auto leaked = [&](const Posting& posting, std::string_view never) {
    const SimRank& rank = *run_.ranks[static_cast<std::size_t>(posting.rank)];
    run_.findings.push_back({Breach::kLeakedRequest, posting.rank, rank.memory.owner(posting.data),
                             -1, fmt::format("{} was never {}", describe(posting), never)});
  };
  for (std::size_t r = 0; r < ranks_; ++r) {
    for (const Posting* posting : run_.ranks[r]->outstanding) leaked(*posting, "waited for");
    for (const Posting* send : mailboxes_[r].sends) {
      if (send->waited) leaked(*send, "received");
    }
  }
}

}  // namespace shardproof
