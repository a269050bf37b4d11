#include "harness/worlds/mpi/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "harness/run/collective_call.h"

namespace shardproof {
namespace {

// What the sender says of its message.
struct Header {
  std::int64_t run = 0;
  std::int64_t elements = 0;
  std::int32_t dtype = 0;
  std::int32_t phase = 0;
};

Header header_of(const std::vector<std::byte>& message) {
  Header header;
  std::memcpy(&header, message.data(), sizeof header);
  return header;
}

int byte_count(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw std::invalid_argument("a message of more than 2 GiB");
  }
  return static_cast<int>(bytes);
}

bool overlap(const View& a, const View& b) {
  return a.bytes() > 0 && b.bytes() > 0 && a.data < b.data + b.bytes() &&
         b.data < a.data + a.bytes();
}

}  // namespace

void MpiMessages::begin() {
  outstanding_.clear();
  flows_.clear();
  posted_ = 0;
}

Request MpiMessages::send(const MpiGroup& group, const View& data, int target, int tag) {
  Posting& posting = post(group, data, target, tag, true);
  const Header header{run_.number(), data.elements(), static_cast<int>(data.dtype),
                      static_cast<int>(run_.rank().log.phase)};
  std::memcpy(posting.message.data(), &header, sizeof header);
  if (carrier() != nullptr) {
    carrier()->start(group.carried, data, target, true, posting.id);
  } else if (data.bytes() > 0) {
    std::memcpy(posting.message.data() + sizeof header, data.data, data.bytes());
  }
  // A send that is not buffered waits for its receiver, however small it is.
  const auto start = run_.schedule().send_is_buffered() ? MPI_Isend : MPI_Issend;
  check_mpi(start(posting.message.data(), byte_count(posting.message.size()), MPI_BYTE, target, tag,
                  group.communicator, &posting.request));
  return {posting.id};
}

Request MpiMessages::receive(const MpiGroup& group, const View& data, int source, int tag) {
  Posting& posting = post(group, data, source, tag, false);
  if (carrier() != nullptr) {
    carrier()->start(group.carried, data, source, false, posting.id);
  } else {
    Memory::poison(data);
  }
  ++flows_[posting.flow].expected;
  check_mpi(MPI_Irecv(posting.message.data(), byte_count(posting.message.size()), MPI_BYTE, source,
                      tag, group.communicator, &posting.request));
  return {posting.id};
}

MpiMessages::Posting& MpiMessages::post(const MpiGroup& group, const View& data, int peer, int tag,
                                        bool sends) {
  if (tag < 0) throw std::invalid_argument(fmt::format("tag {} is below 0", tag));
  if (carrier() == nullptr) run_.rank().settle();
  Posting& posting = outstanding_.emplace_back();
  posting.sends = sends;
  posting.id = posted_++;
  posting.peer = group.members[static_cast<std::size_t>(peer)];
  posting.tag = tag;
  posting.where = place(group.axis, run_.rank().log.phase);
  posting.data = data;
  posting.in_tensor = run_.rank().memory.owns(data.data);
  posting.message.resize(sizeof(Header) + (carrier() == nullptr ? data.bytes() : 0));
  posting.flow = flow_to(group.axis, posting.peer);
  check_overlap(posting);
  posting.event = run_.note(sends ? "send" : "receive", group.axis, posting.peer, tag,
                            static_cast<Index>(data.bytes()));
  return posting;
}

std::size_t MpiMessages::flow_to(const std::string& axis, int peer) {
  const auto found = std::find_if(flows_.begin(), flows_.end(), [&](const Flow& flow) {
    return flow.peer == peer && flow.axis == axis;
  });
  if (found != flows_.end()) return static_cast<std::size_t>(found - flows_.begin());
  flows_.push_back({axis, peer, 0, 0});
  return flows_.size() - 1;
}

std::string MpiMessages::describe(const Posting& posting) const {
  return fmt::format("{} rank {} (tag {}, {})", posting.sends ? "send to" : "receive from",
                     posting.peer, posting.tag, posting.where);
}

void MpiMessages::check_overlap(Posting& posting) {
  for (Posting& other : outstanding_) {
    const bool both_read = posting.sends && other.sends;
    if (&other == &posting || both_read || !overlap(other.data, posting.data)) continue;
    report(posting,
           fmt::format("{} uses memory that is in flight: {}", describe(posting), describe(other)));
    other.faulty = true;
  }
}

void MpiMessages::check_idle(const View& data, std::string_view operation, bool writes) {
  for (Posting& other : outstanding_) {
    if ((!writes && other.sends) || other.faulty || !overlap(other.data, data)) continue;
    report(other, fmt::format("{} uses memory that is in flight: {}", operation, describe(other)));
  }
}

void MpiMessages::launch() {
  if (carrier() != nullptr) carrier()->launch();
}

void MpiMessages::wait(Request& request) {
  const auto found = std::find_if(outstanding_.begin(), outstanding_.end(),
                                  [&](const Posting& each) { return each.id == request.id; });
  if (found == outstanding_.end()) {
    throw std::logic_error("wait for a request that is not outstanding");
  }
  request.id = -1;
  launch();
  if (carrier() == nullptr) run_.rank().settle();
  MPI_Status status{};
  run_.status().communicate(found->sends ? "send" : "receive", flows_[found->flow].axis,
                            run_.rank().log.phase, found->peer, found->tag);
  if (found->sends) {
    run_.wait(found->request, status);
    finish_send(*found);
  } else {
    run_.wait(found->request, status);
    finish_receive(*found, status);
  }
  run_.complete(found->event);
  outstanding_.erase(found);
}

void MpiMessages::finish_send(Posting& send) {
  ++flows_[send.flow].sent;
  if (send.in_tensor && !send.faulty && !run_.rank().memory.owns(send.data.data)) {
    report(send, fmt::format("{}: its tensor was freed before its wait returned", describe(send)));
    return;
  }
  if (carrier() != nullptr) return carrier()->finish(send.id);
  const std::byte* held = send.message.data() + sizeof(Header);
  const std::size_t bytes = send.data.bytes();
  if (send.faulty || bytes == 0 || std::memcmp(held, send.data.data, bytes) == 0) return;
  const std::size_t size = storage_bytes(send.data.dtype);
  std::size_t element = 0;
  while (std::memcmp(held + element * size, send.data.data + element * size, size) == 0) ++element;
  const auto at = static_cast<Index>(element);
  report(send,
         fmt::format("{}: element {} was {} when it was posted and {} before its wait returned",
                     describe(send), element, load(send.data.dtype, held, at), send.data.at(at)));
}

void MpiMessages::finish_receive(Posting& receive, const MPI_Status& status) {
  const Header header = header_of(receive.message);
  int received = 0;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &received));
  if (header.run != run_.number()) {
    throw MpiError(fmt::format("{}: a message of an earlier run came", describe(receive)));
  }
  const auto dtype = static_cast<DType>(header.dtype);
  if (dtype != receive.data.dtype || header.elements != receive.data.elements() ||
      static_cast<std::size_t>(received) != receive.message.size()) {
    run_.mismatch(fmt::format("rank {} sends {} to rank {} (tag {}, {}), which receives {}",
                              receive.peer, size_text(header.elements, dtype), run_.rank().index(),
                              receive.tag, receive.where,
                              size_text(receive.data.elements(), receive.data.dtype)));
  }
  if (carrier() != nullptr) return carrier()->finish(receive.id);
  const Index written = receive.faulty ? -1 : Memory::first_written(receive.data);
  if (written >= 0) {
    report(receive, fmt::format("{}: element {} was written before its wait returned",
                                describe(receive), written));
  }
  if (receive.data.bytes() > 0) {
    std::memcpy(receive.data.data, receive.message.data() + sizeof header, receive.data.bytes());
  }
}

void MpiMessages::report(Posting& posting, std::string detail) {
  posting.faulty = true;
  run_.findings.push_back({Breach::kInFlightChanged, run_.rank().index(),
                           run_.rank().memory.owner(posting.data.data), -1, std::move(detail)});
}

void MpiMessages::find_leaks() {
  for (const Posting& posting : outstanding_) {
    run_.findings.push_back({Breach::kLeakedRequest, run_.rank().index(),
                             run_.rank().memory.owner(posting.data.data), -1,
                             describe(posting) + " was never waited for"});
  }
}

}  // namespace shardproof
