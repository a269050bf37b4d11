#include "harness/devices/cuda/carrier.h"

#include <algorithm>
#include <bit>

#include "harness/model/require.h"

namespace shardproof::SHARDPROOF_SIDE {
namespace {

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return ncclFloat64;
    case DType::kBf16:
      return ncclBfloat16;
    case DType::kF16:
      return ncclFloat16;
    case DType::kF32:
    case DType::kTf32:
      break;
  }
  return ncclFloat32;
}

std::size_t count_of(const View& data) { return static_cast<std::size_t>(data.elements()); }

// All members know this, while only one knows where its own parts lie.
bool are_equally_long(std::span<const View> parts) {
  return std::all_of(parts.begin(), parts.end(),
                     [&](const View& part) { return part.elements() == parts[0].elements(); });
}

bool are_one_array(std::span<const View> parts) {
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].data != parts[i - 1].data + parts[i - 1].bytes()) return false;
  }
  return true;
}

View flat(const View& data) { return data.reshaped({data.elements()}); }

cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return event;
}

}  // namespace

std::unique_ptr<Carrier> make_nccl_carrier(Device& device, Queue& queue) {
  return std::make_unique<NcclCarrier>(device, queue);
}

NcclCarrier::NcclCarrier(Device& device, Queue& queue) : device_(device), queue_(queue) {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
             "cudaStreamCreateWithFlags");
  computed_ = make_event();
  collected_ = make_event();
}

// What fails now fails nobody.
NcclCarrier::~NcclCarrier() {
  for (const Group& group : groups_) nccl().comm_destroy(group.communicator);
  for (const Flight& flight : flights_) cudaEventDestroy(flight.done);
  for (cudaEvent_t event : unused_events_) cudaEventDestroy(event);
  cudaEventDestroy(computed_);
  cudaEventDestroy(collected_);
  cudaStreamDestroy(stream_);
}

Carrier::GroupId NcclCarrier::make_id() {
  ncclUniqueId made{};
  check_nccl(nccl().get_unique_id(&made), "ncclGetUniqueId");
  return std::bit_cast<GroupId>(made);
}

// A group that cannot be made is the environment's fault.
int NcclCarrier::join(const GroupId& id, int size, int position) {
  const auto known = std::bit_cast<ncclUniqueId>(id);
  groups_.push_back({nullptr, size, position});
  try {
    check_nccl(nccl().comm_init_rank(&groups_.back().communicator, size, known, position),
               "ncclCommInitRank");
  } catch (const NcclError& error) {
    throw Error(error.what());
  }
  return static_cast<int>(groups_.size()) - 1;
}

void NcclCarrier::together(const std::function<void()>& join_all) {
  check_nccl(nccl().group_start(), "ncclGroupStart");
  join_all();
  check_nccl(nccl().group_end(), "ncclGroupEnd");
}

void NcclCarrier::start(int group, const View& data, int peer, bool sends, int request) {
  started_.push_back(
      {groups_[static_cast<std::size_t>(group)].communicator, data, peer, sends, request});
}

// What follows on the stream of transfers waits for all that the compute stream was asked for.
void NcclCarrier::follow_compute() {
  check_cuda(cudaEventRecord(computed_, queue_.stream()), "cudaEventRecord");
  check_cuda(cudaStreamWaitEvent(stream_, computed_, 0), "cudaStreamWaitEvent");
}

void NcclCarrier::launch() {
  if (started_.empty()) return;
  follow_compute();
  Flight flight{{}, take_event()};
  check_nccl(nccl().group_start(), "ncclGroupStart");
  for (const Transfer& each : started_) {
    transfer(each);
    flight.requests.push_back(each.request);
  }
  check_nccl(nccl().group_end(), "ncclGroupEnd");
  check_cuda(cudaEventRecord(flight.done, stream_), "cudaEventRecord");
  flights_.push_back(std::move(flight));
  started_.clear();
}

// Both sides leave out what is empty.
void NcclCarrier::transfer(const Transfer& each) {
  const auto [communicator, data, peer, sends, request] = each;
  if (data.elements() == 0) return;
  const ncclDataType_t type = type_of(data.dtype);
  const std::size_t count = count_of(data);
  const ncclResult_t code =
      sends ? nccl().send(data.data, count, type, peer, communicator, stream_)
            : nccl().receive(data.data, count, type, peer, communicator, stream_);
  check_nccl(code, sends ? "ncclSend" : "ncclRecv");
}

void NcclCarrier::finish(int request) {
  launch();
  for (auto flight = flights_.begin(); flight != flights_.end(); ++flight) {
    const auto found = std::find(flight->requests.begin(), flight->requests.end(), request);
    if (found == flight->requests.end()) continue;
    check_cuda(cudaStreamWaitEvent(queue_.stream(), flight->done, 0), "cudaStreamWaitEvent");
    flight->requests.erase(found);
    if (flight->requests.empty()) {
      unused_events_.push_back(flight->done);
      flights_.erase(flight);
    }
    return;
  }
  require(false, "a transfer that is finished was started");
}

// The calls of one group, between the compute stream's earlier and its later work.
template <class Calls>
void NcclCarrier::on_stream(Calls calls) {
  follow_compute();
  check_nccl(nccl().group_start(), "ncclGroupStart");
  calls();
  check_nccl(nccl().group_end(), "ncclGroupEnd");
  check_cuda(cudaEventRecord(collected_, stream_), "cudaEventRecord");
  check_cuda(cudaStreamWaitEvent(queue_.stream(), collected_, 0), "cudaStreamWaitEvent");
}

void NcclCarrier::collect(int group, const CollectiveCall& call) {
  launch();
  const Group& members = groups_[static_cast<std::size_t>(group)];
  if (call.operation == "all_gather") return gather(members, call.data, call.parts);
  if (call.operation == "all_to_all") return exchange(members, call);
  if (call.operation == "reduce_scatter") {
    scatter(members, call.parts, call.data);
    return round_sums(call.data);
  }
  const View& data = call.data;
  if (data.elements() == 0) return;
  const ncclDataType_t type = type_of(data.dtype);
  if (call.operation == "broadcast") {
    on_stream([&] {
      check_nccl(nccl().broadcast(data.data, data.data, count_of(data), type, call.root,
                                  members.communicator, stream_),
                 "ncclBroadcast");
    });
  } else if (call.operation == "all_reduce") {
    on_stream([&] {
      check_nccl(nccl().all_reduce(data.data, data.data, count_of(data), type, ncclSum,
                                   members.communicator, stream_),
                 "ncclAllReduce");
    });
    round_sums(data);
  } else {  // not ncclMax, which does not promise that NaN stays
    const View all = room_for_all(members, data);
    gather_all(members, data, all);
    device_.row_maxima(all.transposed(0, 1), flat(data));
  }
}

void NcclCarrier::round_sums(const View& data) {
  if (data.dtype != DType::kTf32 || data.elements() == 0) return;
  View sums = data;
  sums.dtype = DType::kF32;
  device_.round(sums, DType::kTf32);
}

void NcclCarrier::gather_all(const Group& group, const View& mine, const View& all) {
  on_stream([&] {
    check_nccl(nccl().all_gather(mine.data, all.data, count_of(mine), type_of(mine.dtype),
                                 group.communicator, stream_),
               "ncclAllGather");
  });
}

void NcclCarrier::gather(const Group& group, const View& mine, std::span<const View> parts) {
  if (are_equally_long(parts)) {
    if (mine.elements() == 0) return;
    if (are_one_array(parts)) return gather_all(group, mine, parts[0]);
    const View all = room_for_all(group, mine);
    gather_all(group, mine, all);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      device_.copy(all.select(0, static_cast<Index>(i)), flat(parts[i]));
    }
    return;
  }
  on_stream([&] {
    for (int root = 0; root < group.size; ++root) {
      const View& part = parts[static_cast<std::size_t>(root)];
      if (part.elements() == 0) continue;
      check_nccl(nccl().broadcast(mine.data, part.data, count_of(part), type_of(part.dtype), root,
                                  group.communicator, stream_),
                 "ncclBroadcast");
    }
  });
}

void NcclCarrier::scatter(const Group& group, std::span<const View> parts, const View& mine) {
  const ncclDataType_t type = type_of(mine.dtype);
  if (are_equally_long(parts)) {
    if (mine.elements() == 0) return;
    View all = parts[0];
    if (!are_one_array(parts)) {
      all = room_for_all(group, mine);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        device_.copy(flat(parts[i]), all.select(0, static_cast<Index>(i)));
      }
    }
    on_stream([&] {
      check_nccl(nccl().reduce_scatter(all.data, mine.data, count_of(mine), type, ncclSum,
                                       group.communicator, stream_),
                 "ncclReduceScatter");
    });
    return;
  }
  on_stream([&] {
    for (int root = 0; root < group.size; ++root) {
      const View& part = parts[static_cast<std::size_t>(root)];
      if (part.elements() == 0) continue;
      check_nccl(nccl().reduce(part.data, mine.data, count_of(part), type, ncclSum, root,
                               group.communicator, stream_),
                 "ncclReduce");
    }
  });
}

void NcclCarrier::exchange(const Group& group, const CollectiveCall& call) {
  on_stream([&] {
    for (int peer = 0; peer < group.size; ++peer) {
      const auto at = static_cast<std::size_t>(peer);
      transfer({group.communicator, call.parts[at], peer, true, 0});
      transfer({group.communicator, call.received[at], peer, false, 0});
    }
  });
}

// [size, elements]
View NcclCarrier::room_for_all(const Group& group, const View& data) {
  constexpr std::size_t kSlot = Queue::kScratchSlots - 1;
  const std::size_t bytes = static_cast<std::size_t>(group.size) * data.bytes();
  return View::dense(queue_.scratch(kSlot, bytes), data.dtype, {group.size, data.elements()});
}

cudaEvent_t NcclCarrier::take_event() {
  if (unused_events_.empty()) return make_event();
  const cudaEvent_t event = unused_events_.back();
  unused_events_.pop_back();
  return event;
}

void NcclCarrier::check() {
  for (const Group& group : groups_) {
    ncclResult_t state = ncclSuccess;
    check_nccl(nccl().comm_get_async_error(group.communicator, &state), "ncclCommGetAsyncError");
    check_nccl(state, "what NCCL was asked for");
  }
}

void NcclCarrier::abandon() {
  for (const Group& group : groups_) nccl().comm_abort(group.communicator);
  groups_.clear();
  started_.clear();
  for (const Flight& flight : flights_) unused_events_.push_back(flight.done);
  flights_.clear();
}

}  // namespace shardproof::SHARDPROOF_SIDE
